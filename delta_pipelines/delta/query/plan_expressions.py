"""The expressions of a plan: literals with their types, and the code that they call."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, items, optional
from delta_pipelines.delta.jvm.scala_functions import (
    all_nodes,
    chain,
    is_instance_of,
    joined,
    kept,
    mapped,
    method,
)
from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.row_setting_rules import TIME_ZONE
from delta_pipelines.user_code.pickle_hash import pickle_digest

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSION = f"{_CATALYST}.expressions.Expression"
_LITERAL = f"{_CATALYST}.expressions.Literal"
_PYTHON = f"{_CATALYST}.expressions.PythonFuncExpression"
_TYPE = "org.apache.spark.sql.types.DataType"
_SEQ = "scala.collection.immutable.Seq"
_FUNCTION = "scala.Function1"


class PlanExpressions:
    """All expressions of one plan, without those of its subqueries.

    Args:
        session: An isolated session; the active one.
        plan: An analysed plan.
    """

    def __init__(self, session: SparkSession, plan: JavaObject) -> None:
        self._session = session
        self._view = session._jvm
        self._all: JavaObject = plan.flatMap(_expressions_of_node(self._view))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Short names of the expressions' classes."""
        names = str(_class_names(self._view).apply(self._all))
        return frozenset(name.rpartition(".")[2] for name in names.split())

    def literals(self) -> str:
        """Return every literal in the order of the plan, with its type: `'a, b', 1L`."""
        types = str(_literal_types(self._view).apply(self._all))
        quoted = exact(self._session, types, lambda: _literal_texts(self._view).apply(self._all))
        return f"{quoted}\n{types}{''.join(self._pivoted())}"

    def _pivoted(self) -> Iterator[str]:
        """Position of NULL among a pivot's values: it is not a literal, and prints as `null`."""
        if "PivotFirst" in self.kinds:
            for pivot in items(self._of(f"{_CATALYST}.expressions.aggregate.PivotFirst")):
                yield f"\nNULL at {pivot.pivotColumnValues().indexOf(None)}"

    def python_functions(self) -> list[JavaObject]:
        """Return the functions that Spark runs in Python."""
        # Most plans have none, which takes one call.
        found = self._all.exists(is_instance_of(self._view, _PYTHON))
        return items(self._of(_PYTHON)) if found else []

    def _of(self, kind: str) -> JavaObject:
        return self._all.filter(is_instance_of(self._view, kind))


@lru_cache(maxsize=1)
def _expressions_of_node(view: JavaObject) -> JavaObject:
    """Return a function that lists the expressions of one node of a plan, and all below them."""
    listed = method(view, f"{_CATALYST}.plans.QueryPlan", "expressions")
    return chain(view, listed, method(view, _SEQ, "flatMap", (_FUNCTION, all_nodes(view))))


@lru_cache(maxsize=1)
def _class_names(view: JavaObject) -> JavaObject:
    """Return a function that names the classes of several objects, each once."""
    of_class = chain(view, method(view, "java.lang.Object", "getClass"))
    name = chain(view, method(view, "java.lang.Class", "getName"))
    classes = (mapped(view, of_class), method(view, _SEQ, "distinct"))
    return chain(view, *classes, mapped(view, name), joined(view, " "))


@lru_cache(maxsize=1)
def _literal_types(view: JavaObject) -> JavaObject:
    """Return a function that writes the types of the literals among several expressions."""
    type_of = (method(view, _EXPRESSION, "dataType"), method(view, _TYPE, "sql"))
    return _of_literals(view, chain(view, *type_of))


@lru_cache(maxsize=1)
def _literal_texts(view: JavaObject) -> JavaObject:
    """Return a function that writes the literals among several expressions as SQL."""
    return _of_literals(view, chain(view, method(view, _EXPRESSION, "sql")))


def _of_literals(view: JavaObject, written: JavaObject) -> JavaObject:
    literals = kept(view, is_instance_of(view, _LITERAL))
    return chain(view, literals, mapped(view, written), joined(view, ", "))


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
