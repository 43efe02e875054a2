"""The settings of a session that decide which rows a query gives, and the engine that gives them.

Which ones do is said in `setting_rules.py`. All of a dataset's own `spark_conf` counts, as part of
its definition.
"""

from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import settings_in
from delta_pipelines.delta.row_setting_rules import TIME_ZONE, counts


def row_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that can change rows, as far as they were set.

    Args:
        spark: A classic session.

    Returns:
        Value by full name; always the time zone, which is the machine's when nobody set it.
    """
    conf = Jvm(spark).session.sessionState().conf()
    found = {name: value for name, value in settings_in(conf).items() if counts(name)}
    return {**found, TIME_ZONE: str(conf.sessionLocalTimeZone())}


def registered_settings(spark: SparkSession) -> list[str]:
    """Full names of all settings that this Spark and its extensions know, internal ones included.

    Args:
        spark: A classic session.
    """
    registered = Jvm(spark).object("org.apache.spark.sql.internal.SQLConf").getConfigEntries()
    return sorted(str(entry.key()) for entry in registered.toArray())


_engines: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


def engine(spark: SparkSession) -> str:
    """The versions of Spark and Delta, as text; asked for once for each Spark context.

    Args:
        spark: A classic session.
    """
    if spark.sparkContext not in _engines:
        delta = Jvm(spark).object("io.delta.package").VERSION()
        _engines[spark.sparkContext] = f"Spark {spark.version}, Delta {delta}"
    return _engines[spark.sparkContext]
