"""The expressions of a plan: literals with their types, and the code that they call."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, items, optional
from delta_pipelines.delta.jvm.scala_functions import all_nodes, is_instance_of, method_of
from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.row_setting_rules import TIME_ZONE
from delta_pipelines.user_code.pickle_hash import pickle_digest

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSION = f"{_CATALYST}.expressions.Expression"
_TYPE = "org.apache.spark.sql.types.DataType"
_TEXT = "java.lang.String"


class PlanExpressions:
    """All expressions of one plan, without those of its subqueries.

    Args:
        session: An isolated session; the active one.
        plan: An analysed plan.
    """

    def __init__(self, session: SparkSession, plan: JavaObject) -> None:
        self._session = session
        self._view = view = session._jvm
        seq = "scala.collection.immutable.Seq"
        listed = method_of(view, f"{_CATALYST}.plans.QueryPlan", "expressions", seq)
        self._all: JavaObject = plan.flatMap(listed).flatMap(all_nodes(view))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Short names of the expressions' classes."""
        java_class = "java.lang.Class"
        classes = self._all.map(method_of(self._view, "java.lang.Object", "getClass", java_class))
        names = classes.distinct().map(method_of(self._view, java_class, "getName", _TEXT))
        return frozenset(name.rpartition(".")[2] for name in str(names.mkString(" ")).split())

    def literals(self) -> str:
        """Return every literal in the order of the plan, with its type: `'a, b', 1L`."""
        literals = self._of("expressions.Literal")
        type_of = method_of(self._view, _EXPRESSION, "dataType", _TYPE)
        types = literals.map(type_of).map(method_of(self._view, _TYPE, "sql", _TEXT))
        listed = str(types.mkString(", "))
        sql = method_of(self._view, _EXPRESSION, "sql", _TEXT)
        quoted = exact(self._session, listed, lambda: literals.map(sql).mkString(", "))
        return f"{quoted}\n{listed}{''.join(self._pivoted())}"

    def _pivoted(self) -> Iterator[str]:
        """Position of NULL among a pivot's values: it is not a literal, and prints as `null`."""
        if "PivotFirst" in self.kinds:
            for pivot in items(self._of("expressions.aggregate.PivotFirst")):
                yield f"\nNULL at {pivot.pivotColumnValues().indexOf(None)}"

    def python_functions(self) -> list[JavaObject]:
        """Return the functions that Spark runs in Python."""
        return items(self._of("expressions.PythonFuncExpression"))

    def _of(self, kind: str) -> JavaObject:
        return self._all.filter(is_instance_of(self._view, f"{_CATALYST}.{kind}"))


def exact(session: SparkSession, types: str, written: Callable[[], object]) -> str:
    """Write values as SQL, with timestamps in UTC: elsewhere two of them may have one text.

    Args:
        session: The active session; an isolated one.
        types: Types of the values.
        written: Function that asks Spark for the text.
    """
    if "timestamp" not in types.lower():
        return str(written())
    with setting(session, TIME_ZONE, "UTC"):
        return str(written())


def shipped(function: JavaObject) -> str | None:
    """Hash what Spark sends to its Python workers for a function.

    Args:
        function: One of `PlanExpressions.python_functions`.

    Returns:
        None if a part is sent separately: a broadcast variable, or a function above 1 MiB.
    """
    sent = function.func()
    if not sent.broadcastVars().isEmpty():
        return None
    texts = [str(function.evalType()), str(function.dataType().json())]
    texts.append(pickle_digest(bytes(sent.command().unsafeArray())))
    if function.productPrefix() == "PythonUDTF":
        prepared = optional(function.pickledAnalyzeResult())
        texts.append("" if prepared is None else pickle_digest(bytes(prepared)))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
