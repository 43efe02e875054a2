"""Scratch pipelines: feeds with rows that a test sets, and ways to see the result of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.views import load_view
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.errors import PipelineError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult, RunResult
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.model.table_state import TableState
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.support.table_reader import Rows, newest_rows


class Injected(Exception):
    """What a test raises inside the engine."""


class Feed:
    """Outside rows that a test changes between runs.

    Args:
        columns: Names and types, as DDL.
        rows: The first rows.
    """

    def __init__(self, columns: str, *rows: tuple[Any, ...]) -> None:
        self.columns = columns
        self.rows: Rows = list(rows)

    def set(self, *rows: tuple[Any, ...], columns: str | None = None) -> None:
        """Give other rows, and other columns when named."""
        self.rows = list(rows)
        self.columns = columns or self.columns

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame; given one by one, so that Spark cannot see when they change."""
        return spark.createDataFrame(iter(self.rows), self.columns)


def scratch(schema: str, **options: Any) -> Pipeline:
    """A pipeline without datasets; always of the same name, so that it owns what it made."""
    return Pipeline("scratch", schema=schema, **options)


def mirror(pipeline: Pipeline, name: str, feed: Feed, **options: Any) -> None:
    """Declare a materialized view that shows a feed's rows."""

    @pipeline.materialized_view(name, **options)
    def rows(spark: SparkSession) -> DataFrame:
        return feed.frame(spark)


def merged(pipeline: Pipeline, name: str, feed: Feed, *, keys: list[str], **options: Any) -> None:
    """Declare an upsert of a feed's rows."""

    @pipeline.upsert(name, keys=keys, **options)
    def rows(spark: SparkSession) -> DataFrame:
        return feed.frame(spark)


def run(pipeline: Pipeline, spark: SparkSession, **options: Any) -> RunResult:
    """Run and give the result, failed or not."""
    return pipeline.run(spark, raise_on_error=False, **options)


def run_one(pipeline: Pipeline, spark: SparkSession, name: str = "t", **options: Any) -> Any:
    """Run and give one dataset's result."""
    return run(pipeline, spark, **options).results[name]


def run_well(pipeline: Pipeline, spark: SparkSession, **options: Any) -> RunResult:
    """Run; everything must go well."""
    return pipeline.run(spark, **options)


def failure(result: DatasetResult) -> PipelineError:
    """The error of a failed dataset."""
    assert result.status == "failed", (result.status, result.reason)
    assert isinstance(result.error, PipelineError), repr(result.error)
    return result.error


def rows_of(spark: SparkSession, name: str) -> Rows:
    """All rows of a table, view or DataFrame's name, sorted; NULL sorts first."""
    location = _location(spark, name)
    if location is not None:
        return _in_order(newest_rows(spark, location))
    return _in_order([tuple(row) for row in spark.table(name).collect()])


def _in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [(v is not None, str(v)) for v in row])


def _location(spark: SparkSession, name: str) -> str | None:
    """The folder of a Delta table; None of anything else, and of names that are quoted."""
    schema, dot, table = name.partition(".")
    if not dot or "." in table or "`" in name:
        return None
    try:
        state = load_table(spark, Identifier(None, schema, table))
    except PipelineError:
        return None
    return state.location if state is not None and state.registered else None


def tables_of(spark: SparkSession, schema: str) -> list[str]:
    """Names of a schema's tables and persisted views.

    `spark.catalog.listTables` fails in Spark 4.2 without code generation.
    """
    rows = spark.sql(f"SHOW TABLES IN {schema}").collect()
    return sorted(row["tableName"] for row in rows if not row["isTemporary"])


@dataclass(frozen=True)
class Seen:
    """Everything that a user sees of a table or a view."""

    rows: Rows
    schema: StructType
    comment: str | None
    properties: dict[str, str]
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()
    text: str | None = None
    table_id: str | None = None
    version: int | None = None

    @property
    def content(self) -> "Seen":
        """What two tables with different pasts can have in common."""
        return replace(self, table_id=None, version=None)


def seen(spark: SparkSession, name: str) -> Seen | None:
    """Look at `schema.table`; None when there is no such table, or not yet in the catalog."""
    schema, _, table = name.rpartition(".")
    state = load_table(spark, Identifier(None, schema, table))
    return seen_state(spark, state) if state is not None and state.registered else None


def seen_state(spark: SparkSession, state: TableState) -> Seen:
    """Look at a table that has just been loaded."""
    return Seen(
        rows=_in_order(newest_rows(spark, state.location)),
        schema=state.schema,
        comment=state.comment,
        properties=dict(state.properties),
        partition_columns=tuple(state.partition_columns),
        cluster_columns=tuple(state.cluster_columns),
        table_id=state.table_id,
        version=state.version,
    )


def seen_view(spark: SparkSession, name: str) -> Seen | None:
    """Look at the view `schema.view`; None when there is no such view."""
    schema, _, view = name.rpartition(".")
    state = load_view(spark, Identifier(None, schema, view))
    if state is None:
        return None
    return Seen(
        rows=rows_of(spark, name),
        schema=state.schema,
        comment=state.comment,
        properties=dict(state.properties or {}),
        text=state.text,
    )


def version_of(spark: SparkSession, name: str) -> int:
    """A table's latest Delta version."""
    schema, _, table = name.rpartition(".")
    state = load_table(spark, Identifier(None, schema, table))
    assert state is not None, f"{name} does not exist"
    return state.version


@contextmanager
def once_at(step: Step, dataset: str, effect: Callable[[], object]) -> Iterator[list[str]]:
    """Do something the first time a dataset reaches a step; gives a list that tells that it did."""
    happened: list[str] = []

    def observer(reached: Step, name: str) -> None:
        if reached is step and name == dataset and not happened:
            happened.append(name)
            effect()

    with observing(observer):
        yield happened
    assert happened, f"{dataset} never reached {step.value}"


def raising(error: Exception) -> Callable[[], None]:
    """An effect for `once_at`: raise."""

    def effect() -> None:
        raise error

    return effect


@dataclass
class Counted:
    """What a block of code did."""

    count: int = -1


@contextmanager
def jobs_started(spark: SparkSession) -> Iterator[Counted]:
    """Count the Spark jobs of the whole application while the block runs."""
    scheduler: Any = spark.sparkContext._jsc.sc().dagScheduler()
    jobs, before = Counted(), int(scheduler.numTotalJobs())
    yield jobs
    jobs.count = int(scheduler.numTotalJobs()) - before


@contextmanager
def bytes_shuffled(spark: SparkSession) -> Iterator[Counted]:
    """Count the bytes that the whole application writes for shuffles while the block runs."""
    context: Any = spark.sparkContext._jsc.sc()

    def written() -> int:
        context.listenerBus().waitUntilEmpty()
        executors = context.statusStore().executorList(False)
        return sum(int(executors.apply(n).totalShuffleWrite()) for n in range(executors.size()))

    shuffled, before = Counted(), written()
    yield shuffled
    shuffled.count = written() - before
