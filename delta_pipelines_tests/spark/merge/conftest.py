"""Merges by `merge_into` beside Delta's own, for the tests of the merge room."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeResult
from delta_pipelines_tests.spark.merge.oracle import PLAIN, Rows, When, create, run_both

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
        frame = partial(spark.createDataFrame, source, source_ddl)
        return run_both(spark, ours, lambda: through(frame()), on, [*clauses], gives=gives)

    return run
