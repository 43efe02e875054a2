"""What an analysed plan says about the rows it will give: its text, its leaves, its own code.

Two runs of an unchanged query over unchanged inputs tell the same, in the same JVM or another.
Nothing here starts a Spark job.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.udtf import AnalyzeResult

from delta_pipelines.delta.jvm import (
    JavaObject,
    Jvm,
    class_name,
    entries,
    is_classic,
    items,
    optional,
    plan_name,
    scala_sequence,
)
from delta_pipelines.delta.listing import listing
from delta_pipelines.delta.plan_text import is_cut, normalised
from delta_pipelines.delta.query_plans import Query, files_relation, query_of, tree_pattern
from delta_pipelines.delta.query_session import noted_rows
from delta_pipelines.delta.relations import Relation, leaf_relation
from delta_pipelines.delta.sessions import active, settings

_CATALYST = "org.apache.spark.sql.catalyst"
_MAX_TEXT = 2**31 - 1 - 15  # the longest array of the JVM, as Spark counts it
_LIMITS = ("spark.sql.debug.maxToStringFields", "spark.sql.maxPlanStringLength")
_MAX_ROWS = 10_000
_NOT_REPEATABLE = re.compile(
    r"\b(rand|randn|random|uuid|monotonically_increasing_id|input_file_name|randstr|uniform|shuffle"
    r"|input_file_block_start|input_file_block_length|spark_partition_id|java_method|reflect)\(",
    re.IGNORECASE,
)
_CURRENT = re.compile(r"\b(current_\w+|now|localtimestamp|session_user)\(")
# Texts that Spark reads as the time of the query when it casts them (its `SpecialDatetimeValues`).
_TIME_AS_TEXT = re.compile(
    r"\b(?:cast|to_date|to_timestamp\w*|date|timestamp)\(\s*(now|today|yesterday|tomorrow)\s*"
    r"(?:,|\)| as (?:date|timestamp))",
    re.IGNORECASE,
)
_FOREIGN_CODE = re.compile(r"\b(HiveSimpleUDF|HiveGenericUDF|HiveGenericUDTF|HiveUDAFFunction)#")
_CALLS = ("PYTHON_UDF", "GENERATOR", "AGGREGATE_EXPRESSION")
_PATTERNS = (*_CALLS, "CURRENT_LIKE", "SCALA_UDF", "IN")
_PYTHON = ("PythonUDF", "PythonUDAF", "PythonUDTF")
_FOREIGN_AGGREGATES = (
    *("ScalaAggregator", "ScalaUDAF", "V2Aggregator", "HiveUDAFFunction"),
    *("SimpleTypedAggregateExpression", "ComplexTypedAggregateExpression"),
)
_FOREIGN = "it calls a function of the JVM, whose code cannot be told"
CACHED = "it reads rows that the session has cached, of a version that nobody knows"
_FILE_METADATA = re.compile(r"\b_metadata#")


@dataclass(frozen=True)
class AnalysedPlan:
    """What decides the rows of a query besides its tables' versions.

    Args:
        digest: Hash of the plan's text, of what its leaves are, and of the columns it gives.
        tables: The Delta tables that it reads, each at a version, through all views.
        files: Root paths of other files -> hash of their listing.
        functions: Python functions that run on its rows, by name; None for one that cannot be read.
        without_version: What it depends on and that has no version, each as the end of a sentence.
    """

    digest: str
    tables: tuple[Relation, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    functions: tuple[tuple[str, object], ...] = ()
    without_version: tuple[str, ...] = ()


def expression_mark(spark: SparkSession) -> int:
    """The least id that an expression gets which is analysed from now on.

    Args:
        spark: A classic session.
    """
    counter = _counters.get(spark.sparkContext)
    if counter is None:
        named = f"{_CATALYST}.expressions.NamedExpression$"
        counter = _counters[spark.sparkContext] = Jvm(spark).private_field(named, "curId")
    return int(counter.get(None))


_counters: WeakKeyDictionary[SparkContext, JavaObject] = WeakKeyDictionary()
"""The field from which Spark's `newExprId` gives the ids of expressions: read in one call, where an
id of our own would take three."""


def analysed_plan(
    session: SparkSession, frame: DataFrame, mark: int, end: int | None = None
) -> AnalysedPlan:
    """Read an analysed plan; nothing is run.

    Args:
        session: A classic session of the caller's own; texts are made by its settings. Rows from
            Python are told when it is the `query_session` that they were made in.
        frame: A DataFrame.
        mark: From `expression_mark`, before the query was analysed: a `#12` in a text of the
            user's is told from the id of an expression by it.
        end: The same, after the query was analysed; None for now.

    Example:
        >>> mark = expression_mark(spark)
        >>> analysed_plan(spark, spark.sql("SELECT rand() AS n"), mark).without_version
        ('it calls rand()',)
    """
    with active(session):
        query = query_of(frame)
        ids = range(mark, expression_mark(session) if end is None else end)
        reader = _Reader(session, query, ids)
        told = reader.read()
        if reader.met_cut_text:
            # Such a plan would be told by its first part alone. Most are not cut, and to give a
            # session other settings and back is ten calls of the JVM.
            with settings(session, dict.fromkeys(_LIMITS, str(_MAX_TEXT))):
                told = _Reader(session, query, ids).read()
        if not (told.tables or told.files) or not _reads_cached_rows(session, query.execution):
            return told
        return replace(told, without_version=(*told.without_version, CACHED))


def is_deterministic(frame: DataFrame) -> bool:
    """True when a query's own expressions give the same whenever they are computed.

    Args:
        frame: An analysed query; over Spark Connect nothing is known, and nothing is said.
    """
    return not is_classic(frame.sparkSession) or all(
        expression.deterministic()
        for expression in items(frame._jdf.queryExecution().analyzed().expressions())
    )


def _reads_cached_rows(session: SparkSession, query: JavaObject) -> bool:
    """True when rows would come from the session's cache, of whichever version they are."""
    if session._jsparkSession.sharedState().cacheManager().isEmpty():
        return False
    return any(
        class_name(leaf) == "InMemoryRelation"
        for leaf in items(query.withCachedData().collectLeaves())
    )


def are_alike(frame: DataFrame, one: str, other: str) -> bool:
    """True when two SQL expressions over a frame's columns are the same, however they are written.

    Args:
        frame: A query; nothing is run. Over Spark Connect nothing is known, and nothing is said.
        one: SQL.
        other: SQL.

    Example:
        >>> are_alike(spark.range(1).alias("t"), "id + 1", "`t`.id + 1")
        True
    """
    if not is_classic(frame.sparkSession):
        return True
    try:
        plan = frame.selectExpr(f"({one}\n) AS a", f"({other}\n) AS b")._jdf.queryExecution()
    except AnalysisException:
        return False
    first, second = (alias.child() for alias in items(plan.analyzed().projectList()))
    return bool(first.semanticEquals(second))


@lru_cache(maxsize=16)
def _any_of(view: JavaObject, names: tuple[str, ...]) -> JavaObject:
    """Several patterns as one Scala `Seq`, made once."""
    return scala_sequence(view, [tree_pattern(view, name) for name in names])


class _Reader:
    def __init__(self, session: SparkSession, query: Query, ids: range) -> None:
        self._session = session
        self._jvm = jvm = Jvm(session)
        self._query = query
        self._plan = query.plan
        self._ids = ids
        self._view = jvm.spark._jvm
        self._told: list[str] = []
        self._tables: dict[Relation, None] = {}
        self._files: dict[str, str] = {}
        self._without: dict[str, None] = {}

    @property
    def met_cut_text(self) -> bool:
        """True when Spark left out parts of a text that was read."""
        return any(map(is_cut, self._told))

    def read(self) -> AnalysedPlan:
        text = normalised(self._plan.treeString(True, False, _MAX_TEXT, False, False), self._ids)
        self._told += [text, self._plan.schema().catalogString()]
        subqueries = items(self._plan.subqueriesAll()) if self._query.has_subqueries else []
        plans = [self._plan, *subqueries]
        for plan in plans:
            for leaf in items(plan.collectLeaves()):
                self._leaf(leaf)
        # A plan without any of these, and so most plans, is asked once instead of for each.
        special = [plan for plan in plans if self._contains_any(plan, _PATTERNS)]
        self._expressions(text, is_special=any(plan is self._plan for plan in special))
        self._told += self._lists(special)
        functions = tuple(self._functions(special))
        return AnalysedPlan(
            digest=hashlib.sha256("\n".join(self._told).encode()).hexdigest()[:16],
            tables=tuple(self._tables),
            files=self._files,
            functions=functions,
            without_version=tuple(self._without),
        )

    def _leaf(self, leaf: JavaObject) -> None:
        kind = plan_name(leaf)
        relation = leaf_relation(leaf, kind)
        if relation is None:
            return
        if relation.is_streaming:
            self._without["it reads a stream"] = None
        elif relation.kind == "local":
            self._local(leaf, kind)
        elif relation.kind == "delta" and not self._is_change_feed(leaf):
            self._tables[relation] = None
            self._told.append(leaf.schema().catalogString())
        elif relation.kind == "opaque":
            self._opaque(leaf)
        elif not self._listed(leaf, relation):
            name = relation.name or relation.location or "a table"
            self._without[f"it reads {name}, which has no version"] = None

    def _opaque(self, leaf: JavaObject) -> None:
        rows = noted_rows(self._session, leaf)
        if rows is None:
            what = "it reads rows whose origin Spark does not tell (Python, an RDD, a checkpoint)"
            self._without[what] = None
        else:
            self._told.append(f"{leaf.schema().json()} {rows}")

    def _is_change_feed(self, leaf: JavaObject) -> bool:
        return class_name(leaf) == "LogicalRelation" and files_relation(leaf) is None

    def _local(self, leaf: JavaObject, kind: str) -> None:
        if kind != "LocalRelation":
            return
        rows = leaf.data()
        if rows.size() > _MAX_ROWS:
            self._without["it reads many rows from Python"] = None
            return
        if rows.nonEmpty():
            # Typed and quoted, as no other text of them is: NULL is not 'null'.
            self._told.append(_sql(lambda: leaf.toSQL("t")) or rows.mkString(chr(30)))
        self._told.append(leaf.schema().catalogString())

    def _listed(self, leaf: JavaObject, relation: Relation) -> bool:
        source = files_relation(leaf)
        if source is None or relation.location is None:
            return False
        listed = listing(self._jvm, source.location())
        if listed is None:
            return False
        where = relation.location
        self._files[where] = _combined(self._files.get(where), listed)
        options = sorted(entries(source.options()).items())
        self._told.append(f"{where} {leaf.schema().catalogString()} {options}")
        return True

    def _expressions(self, text: str, *, is_special: bool) -> None:
        if not self._plan.deterministic():
            names = _calls(_NOT_REPEATABLE, text)
            self._without[_called(names, "a function not marked deterministic")] = None
        if is_special and self._contains(self._plan, "CURRENT_LIKE"):
            self._without[_called(_calls(_CURRENT, text), "a function of the current time")] = None
        for word in sorted(set(_TIME_AS_TEXT.findall(text))):
            self._without[f"it reads the text {word!r} as a time"] = None
        calls_scala = is_special and self._contains(self._plan, "SCALA_UDF")
        if calls_scala or _FOREIGN_CODE.search(text):
            self._without[_FOREIGN] = None
        if self._tables and _FILE_METADATA.search(text):
            self._without["it reads _metadata of a Delta table's files"] = None
        if "ScriptTransformation" in text:
            self._without["it runs a script"] = None

    def _contains(self, node: JavaObject, pattern: str) -> bool:
        return bool(node.containsPattern(tree_pattern(self._view, pattern)))

    def _contains_any(self, node: JavaObject, patterns: tuple[str, ...]) -> bool:
        return bool(node.containsAnyPattern(_any_of(self._view, patterns)))

    def _lists(self, plans: list[JavaObject]) -> Iterator[str]:
        """The lists of `IN`, whose values the plan's text gives without quotes."""
        waiting = list(plans)
        while waiting:
            node = waiting.pop()
            if self._contains(node, "IN"):
                for expression in items(node.expressions()):
                    if self._contains(expression, "IN"):
                        yield normalised(_sql(expression.sql), self._ids)
                waiting += items(node.children())

    def _functions(self, plans: list[JavaObject]) -> Iterator[tuple[str, object]]:
        """The Python functions that run on the rows; notes aggregates of the JVM on the way."""
        waiting = [(plan, True) for plan in plans]
        while waiting:
            node, is_plan = waiting.pop()
            if not self._contains_any(node, _CALLS):
                continue
            if is_plan:
                waiting += [(expression, False) for expression in items(node.expressions())]
            else:
                kind = plan_name(node)
                if kind in _PYTHON:
                    yield str(node.name()), _python_function(node)
                    if kind == "PythonUDTF":
                        yield from _prepared(node)
                if kind == "AggregateExpression":
                    aggregate = plan_name(node.aggregateFunction())
                    if aggregate in _FOREIGN_AGGREGATES:
                        self._without[_FOREIGN] = None
            waiting += [(child, is_plan) for child in items(node.children())]


def _sql(told: Callable[[], object]) -> str:
    """An expression as SQL; empty where it holds what no SQL can say."""
    try:
        return str(told())
    except (Py4JError, PySparkException):
        return ""


def _python_function(expression: JavaObject) -> object:
    """What Python workers run; None when it cannot be read.

    Of a table function that is its class, which the pickle holds by itself; of others the function
    is the first part of a tuple.
    """
    loaded = _loaded(expression.func().command().unsafeArray())
    if isinstance(loaded, type):
        return loaded
    return loaded[0] if isinstance(loaded, tuple) and loaded else None


def _prepared(function: JavaObject) -> Iterator[tuple[str, object]]:
    """What a table function's own `analyze` prepared for its rows, if more than their columns."""
    pickled = optional(function.pickledAnalyzeResult())
    result = None if pickled is None else _loaded(pickled)
    if pickled is not None and type(result) is not AnalyzeResult:
        yield f"{function.name()}.analyze", result


def _loaded(pickled: Iterable[int]) -> object:
    """What was pickled for Python workers; None when it cannot be read."""
    try:
        loaded: object = CloudPickleSerializer().loads(bytes(pickled))  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - whatever a user's pickle does, its content is unknown
        return None
    return loaded


def _calls(pattern: re.Pattern[str], text: str) -> list[str]:
    return sorted({found.lower() for found in pattern.findall(text)})


def _called(names: list[str], otherwise: str) -> str:
    return f"it calls {', '.join(f'{name}()' for name in names) if names else otherwise}"


def _combined(known: str | None, more: str) -> str:
    if known is None or known == more:
        return more
    return hashlib.sha256(" ".join(sorted((known, more))).encode()).hexdigest()[:16]
