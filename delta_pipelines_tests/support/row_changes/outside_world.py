"""The world outside of a pipeline, and what a way of changing it is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.pipeline import Pipeline

ENVIRONMENT = "DELTA_PIPELINES_TESTS_NUMBER"


@dataclass
class World:
    """What is outside of a pipeline; a change turns its number from 1 into 2.

    Args:
        spark: The session.
        schema: Of the outside tables.
        folder: Of the outside files.
        number: What every query is to find.
    """

    spark: SparkSession
    schema: str
    folder: Path
    number: int = 1

    def path(self, name: str) -> str:
        """A file of the world's, as text."""
        return str(self.folder / name)

    def write(self, name: str, text: str) -> None:
        """Write one of them."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)


Query = Callable[[SparkSession, World], DataFrame]
Declare = Callable[[Pipeline, World, str], object]
Expected = Callable[[int], list[tuple[Any, ...]]]


def the_number(number: int) -> list[tuple[Any, ...]]:
    """One row: the world's number."""
    return [(number,)]


@dataclass(frozen=True)
class Way:
    """One way.

    Args:
        declare: Declares the dataset.
        expected: Its rows by the world's number; None where they cannot be known before.
        skipped: True when the dataset is left alone as long as nothing changes.
        change: SQL that makes the world another one; `{t}` is an outside table of the way's own.
        begin: SQL that makes that table.
    """

    declare: Declare
    expected: Expected | None = the_number
    skipped: bool = True
    change: tuple[str, ...] = ()
    begin: tuple[str, ...] = ()


def _named(frame: DataFrame) -> DataFrame:
    """The same columns by names that say nothing: another name is a reason to refresh by itself."""
    return frame.toDF(*(f"v{number}" for number in range(len(frame.columns))))


def viewed(query: Query, **options: Any) -> Declare:
    """Declare a materialized view of a query."""

    def declare(pipeline: Pipeline, world: World, name: str) -> None:
        def rows(spark: SparkSession) -> DataFrame:
            return _named(query(spark, world))

        pipeline.materialized_view(name, **options)(rows)

    return declare


def of_sql(text: str) -> Declare:
    """Declare a view of SQL text, in which the world's number, schema and the way's table stand.

    A function makes the query, so that the text is no part of the declaration.
    """

    def declare(pipeline: Pipeline, world: World, name: str) -> None:
        def rows(spark: SparkSession) -> DataFrame:
            table = f"{world.schema}_outside.{name}"
            return _named(spark.sql(text.format(n=world.number, t=table)))

        pipeline.materialized_view(name)(rows)

    return declare
