"""Numbers that Spark gives to the parts of a plan, made so large that no text of a user's has them.

Spark prints `id#12` for an expression, and a user's text may be `#12` as well. From 10^12 on they
differ from such a text by their number (`plan_text.py`).
"""

from threading import Lock
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.scala_functions import added_to_counter
from delta_pipelines.delta.query.plan_text import FIRST_ID

_CATALYST = "org.apache.spark.sql.catalyst"
_COUNTERS = (
    f"{_CATALYST}.expressions.NamedExpression$",
    f"{_CATALYST}.plans.logical.CTERelationDef$",
)
_numbered: WeakSet[SparkContext] = WeakSet()
_lock = Lock()


def number_from_high(spark: SparkSession) -> None:
    """Let Spark number expressions and common table expressions from 10^12 on.

    Args:
        spark: A classic session; holds for all sessions of its JVM.
    """
    context = spark.sparkContext
    with _lock:
        if context in _numbered:
            return
        jvm = Jvm(spark)
        for owner in _COUNTERS:
            counter = jvm.private_field(owner, "curId")
            if int(counter.get(None)) < FIRST_ID:
                added_to_counter(spark._jvm, counter, "Long", FIRST_ID)
        _numbered.add(context)
