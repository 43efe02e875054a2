"""Fingerprint an analysed plan: its text, its leaves and the code that it calls.

Two runs of an unchanged query over unchanged inputs give the same result, in the same JVM or
another one. Nothing here starts a Spark job.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import (
    JavaObject,
    Jvm,
    class_name,
    entries,
    items,
    plan_name,
    scala_sequence,
)
from delta_pipelines.delta.jvm.sessions import active, settings
from delta_pipelines.delta.query.file_listing import listing
from delta_pipelines.delta.query.plan_expressions import PlanExpressions, exact, shipped
from delta_pipelines.delta.query.plan_nodes import (
    Query,
    files_relation,
    nodes,
    query_of,
    tree_pattern,
)
from delta_pipelines.delta.query.plan_text import is_cut, normalised
from delta_pipelines.delta.query.query_session import noted_rows
from delta_pipelines.delta.query.relations import Relation, leaf_relation

_MAX_TEXT = 2**31 - 1 - 15  # the longest array of the JVM, as Spark counts it
_LIMITS = ("spark.sql.debug.maxToStringFields", "spark.sql.maxPlanStringLength")
_MAX_ROWS = 10_000
_NOT_REPEATABLE = re.compile(
    r"\b(rand|randn|random|uuid|monotonically_increasing_id|input_file_name|randstr|uniform|shuffle"
    r"|input_file_block_start|input_file_block_length|spark_partition_id|java_method|reflect)\(",
    re.IGNORECASE,
)
_CURRENT = re.compile(r"\b(current_\w+|now|localtimestamp|session_user)\(")
# Texts that Spark casts to the time of the query (its `SpecialDatetimeValues`).
_TIME_AS_TEXT = re.compile(
    r"\b(?:cast|to_date|to_timestamp\w*|date|timestamp)\(\s*(now|today|yesterday|tomorrow)\s*"
    r"(?:,|\)| as (?:date|timestamp))",
    re.IGNORECASE,
)
_FOREIGN_CODE = re.compile(r"\b(HiveSimpleUDF|HiveGenericUDF|HiveGenericUDTF|HiveUDAFFunction)#")
_PATTERNS = (
    *("LITERAL", "PYTHON_UDF", "GENERATOR", "AGGREGATE_EXPRESSION"),
    *("CURRENT_LIKE", "SCALA_UDF"),
)
"""The expressions of a plan without any of these patterns are not read."""
_FOREIGN_KINDS = frozenset(
    {
        *("ScalaUDF", "ScalaAggregator", "ScalaUDAF", "V2Aggregator", "HiveUDAFFunction"),
        *("SimpleTypedAggregateExpression", "ComplexTypedAggregateExpression"),
        "UserDefinedGenerator",
    }
)
_FOREIGN = "it calls a function of the JVM, and changes of its code cannot be detected"
CACHED = "it reads rows that the session has cached, at an unknown version"
_FILE_METADATA = re.compile(r"\b_metadata#")


@dataclass(frozen=True)
class AnalysedPlan:
    """What decides the rows of a query, besides the versions of its tables.

    Args:
        digest: Hash of the plan's text, of its leaves, and of its columns.
        tables: The Delta tables that it reads, each at a version, through all views.
        files: Root paths of other files -> hash of their listing.
        functions: Python functions on its rows that are declared deterministic -> hash of what
            Spark sends to its Python workers.
        without_version: Dependencies that have no version, each as the end of a sentence.
    """

    digest: str
    tables: tuple[Relation, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    without_version: tuple[str, ...] = ()


def analysed_plan(
    session: SparkSession,
    frame: DataFrame,
    *,
    deterministic: bool = False,
    deterministic_views: Collection[str] = (),
) -> AnalysedPlan:
    """Read an analysed plan; nothing is run.

    Args:
        session: An isolated classic session; its settings decide how texts are written. Rows from
            Python have a hash only if it is the `query_session` in which they were created.
        frame: A DataFrame, analysed after `number_from_high`.
        deterministic: True if all Python functions on its rows are declared deterministic.
        deterministic_views: Aliases in the query; Python functions below them are deterministic
            too.

    Example:
        >>> analysed_plan(spark, spark.sql("SELECT rand() AS n")).without_version
        ('it calls rand()',)
    """
    with active(session):
        query = query_of(frame)
        declared = True if deterministic else frozenset(deterministic_views)
        reader = _Reader(session, query, declared)
        plan = reader.read()
        if reader.met_cut_text:
            # Only the first part of such a plan would count. Most plans are not cut, so the limits
            # are raised only here: changing settings takes ten calls to the JVM.
            with settings(session, dict.fromkeys(_LIMITS, str(_MAX_TEXT))):
                plan = _Reader(session, query, declared).read()
        if not (plan.tables or plan.files) or not _reads_cached_rows(session, query.execution):
            return plan
        return replace(plan, without_version=(*plan.without_version, CACHED))


def is_deterministic(frame: DataFrame) -> bool:
    """Say whether a query's own expressions always give the same values."""
    return all(
        expression.deterministic()
        for expression in items(frame._jdf.queryExecution().analyzed().expressions())
    )


def _reads_cached_rows(session: SparkSession, query: JavaObject) -> bool:
    """Say whether rows would come from the session's cache, at an unknown version."""
    if session._jsparkSession.sharedState().cacheManager().isEmpty():
        return False
    return any(
        class_name(leaf) == "InMemoryRelation"
        for leaf in items(query.withCachedData().collectLeaves())
    )


def are_alike(frame: DataFrame, one: str, other: str) -> bool:
    """Say whether two SQL expressions over a frame's columns mean the same.

    Nothing is run.

    Example:
        >>> are_alike(spark.range(1).alias("t"), "id + 1", "`t`.id + 1")
        True
    """
    try:
        plan = frame.selectExpr(f"({one}\n) AS a", f"({other}\n) AS b")._jdf.queryExecution()
    except AnalysisException:
        return False
    first, second = (alias.child() for alias in items(plan.analyzed().projectList()))
    return bool(first.semanticEquals(second))


@lru_cache(maxsize=16)
def _any_of(view: JavaObject, names: tuple[str, ...]) -> JavaObject:
    """Return several tree patterns as one Scala `Seq`; cached."""
    return scala_sequence(view, [tree_pattern(view, name) for name in names])


class _Reader:
    def __init__(
        self, session: SparkSession, query: Query, declared: bool | frozenset[str]
    ) -> None:
        self._session = session
        self._jvm = jvm = Jvm(session)
        self._query = query
        self._plan = query.plan
        self._declared = declared
        self._view = jvm.spark._jvm
        self._texts: list[str] = []
        self._tables: dict[Relation, None] = {}
        self._files: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._without: dict[str, None] = {}

    @property
    def met_cut_text(self) -> bool:
        """True if Spark truncated a text that was read."""
        return any(map(is_cut, self._texts))

    def read(self) -> AnalysedPlan:
        text = normalised(self._plan.treeString(True, False, _MAX_TEXT, False, False))
        self._texts += [text, normalised(self._plan.schema().catalogString())]
        subqueries = items(self._plan.subqueriesAll()) if self._query.has_subqueries else []
        plans = [self._plan, *subqueries]
        for plan in plans:
            for leaf in items(plan.collectLeaves()):
                self._leaf(leaf)
        self._text(text)
        for plan in plans:
            if plan.containsAnyPattern(_any_of(self._view, _PATTERNS)):
                self._expressions(plan, text)
        return AnalysedPlan(
            digest=hashlib.sha256("\n".join(self._texts).encode()).hexdigest()[:16],
            tables=tuple(self._tables),
            files=self._files,
            functions=self._functions,
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
            self._texts.append(f"{leaf.schema().catalogString()} {relation.stored_names}")
        elif relation.kind == "opaque":
            self._opaque(leaf)
        elif not self._listed(leaf, relation):
            name = relation.name or relation.location or "a table"
            self._without[f"it reads {name}, which has no version"] = None

    def _opaque(self, leaf: JavaObject) -> None:
        rows = noted_rows(self._session, leaf)
        if rows is None:
            what = "it reads rows of unknown origin (Python, an RDD, a checkpoint)"
            self._without[what] = None
        else:
            self._texts.append(f"{leaf.schema().json()} {rows}")

    def _is_change_feed(self, leaf: JavaObject) -> bool:
        return class_name(leaf) == "LogicalRelation" and files_relation(leaf) is None

    def _local(self, leaf: JavaObject, kind: str) -> None:
        if kind != "LocalRelation":
            return
        rows = leaf.data()
        if rows.size() > _MAX_ROWS:
            self._without["it reads many rows from Python"] = None
            return
        types = str(leaf.schema().catalogString())
        self._texts.append(types)
        if rows.nonEmpty():
            try:
                self._texts.append(exact(self._session, types, lambda: leaf.toSQL("t")))
            except (Py4JError, PySparkException):
                self._without["it reads rows of a type that cannot be written as SQL"] = None

    def _listed(self, leaf: JavaObject, relation: Relation) -> bool:
        source = files_relation(leaf)
        if source is None or relation.location is None:
            return False
        listed = listing(self._jvm, source.location())
        if listed is None:
            return False
        location = relation.location
        self._files[location] = _combined(self._files.get(location), listed)
        options = sorted(entries(source.options()).items())
        self._texts.append(f"{location} {leaf.schema().catalogString()} {options}")
        return True

    def _text(self, text: str) -> None:
        if not self._plan.deterministic():
            names = _calls(_NOT_REPEATABLE, text)
            self._without[_called(names, "a function not marked deterministic")] = None
        for word in sorted(set(_TIME_AS_TEXT.findall(text))):
            self._without[f"it reads the text {word!r} as a time"] = None
        if _FOREIGN_CODE.search(text):
            self._without[_FOREIGN] = None
        if self._tables and _FILE_METADATA.search(text):
            self._without["it reads _metadata of a Delta table's files"] = None
        if "ScriptTransformation" in text:
            self._without["it runs a script"] = None

    def _expressions(self, plan: JavaObject, text: str) -> None:
        expressions = PlanExpressions(self._session, plan)
        self._texts.append(expressions.literals())
        if plan.containsPattern(tree_pattern(self._view, "CURRENT_LIKE")):
            self._without[_called(_calls(_CURRENT, text), "a function of the current time")] = None
        if expressions.kinds & _FOREIGN_KINDS:
            self._without[_FOREIGN] = None
        functions = expressions.python_functions()
        if functions:
            self._python(plan, functions)

    def _python(self, plan: JavaObject, functions: list[JavaObject]) -> None:
        """Add Python functions on rows: their result is trusted only if it is declared."""
        in_views = {function for view in self._views(plan) for function in self._hashed(view)}
        undeclared = []
        for function in map(_name_and_hash, functions):
            name, sent = function
            if self._declared is not True and function not in in_views:
                undeclared.append(name)
            elif sent is None:
                why = f"its function {name} uses a broadcast variable, or is larger than 1 MiB"
                self._without[why] = None
            else:
                # Several functions may have one name, and their order matters.
                text = f"{self._functions.get(name, '')} {sent}"
                self._functions[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        if undeclared:
            names = ", ".join(dict.fromkeys(undeclared))
            self._without[
                f"it runs Python on its rows ({names}), whose result may change; declare "
                "deterministic=True if equal rows always give an equal result"
            ] = None

    def _views(self, plan: JavaObject) -> Iterator[JavaObject]:
        if isinstance(self._declared, frozenset) and self._declared:
            for node in nodes(plan):
                if plan_name(node) == "SubqueryAlias" and str(node.alias()) in self._declared:
                    yield node

    def _hashed(self, plan: JavaObject) -> Iterator[tuple[str, str | None]]:
        return map(_name_and_hash, PlanExpressions(self._session, plan).python_functions())


def _name_and_hash(function: JavaObject) -> tuple[str, str | None]:
    return str(function.name()), shipped(function)


def _calls(pattern: re.Pattern[str], text: str) -> list[str]:
    return sorted({found.lower() for found in pattern.findall(text)})


def _called(names: list[str], otherwise: str) -> str:
    return f"it calls {', '.join(f'{name}()' for name in names) if names else otherwise}"


def _combined(known: str | None, more: str) -> str:
    if known is None or known == more:
        return more
    return hashlib.sha256(" ".join(sorted((known, more))).encode()).hexdigest()[:16]
