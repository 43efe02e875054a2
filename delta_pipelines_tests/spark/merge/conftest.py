"""Merges by `merge_into` beside Delta's own, for the tests of the merge room."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeResult
from delta_pipelines_tests.spark.merge.oracle import (
    PLAIN,
    Rows,
    When,
    create,
    in_order,
    read,
    run_both,
)

Merge = Callable[..., MergeResult]


@pytest.fixture
def merge_rows(spark: SparkSession, tmp_path: Path) -> Merge:
    """Merge rows into rows, by both ways, and hold the outcome against the expected rows."""

    def run(
        target: Rows,
        source: Rows,
        on: str,
        *clauses: When,
        gives: Rows,
        target_ddl: str = "key2 int, value int",
        source_ddl: str = "key1 int, value int",
        layout: str = PLAIN,
        files: int = 1,
        through: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> MergeResult:
        ours = create(spark, tmp_path / "target", target_ddl, target, layout, files)
        result = run_both(
            spark, ours, lambda: through(spark.createDataFrame(source, source_ddl)), on, [*clauses]
        )
        assert read(spark, ours) == in_order(gives)
        return result

    return run
