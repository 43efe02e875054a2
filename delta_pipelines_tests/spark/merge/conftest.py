"""Merges by `merge_into` beside Delta's own, for the tests of the merge room."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeResult
from delta_pipelines_tests.spark.merge.oracle import Rows, When, create, run_both, sorted_rows

Merge = Callable[..., MergeResult]


@pytest.fixture
def merge_rows(spark: SparkSession, schema: str) -> Merge:
    """Merge rows into rows, by both ways, and hold the outcome against the expected rows."""

    def run(
        target: Rows,
        source: Rows,
        on: str,
        *clauses: When,
        gives: Rows,
        target_ddl: str = "key2 int, value int",
        source_ddl: str = "key1 int, value int",
        layout: str = "",
        files: int = 1,
        through: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> MergeResult:
        ours = create(spark, f"{schema}.ours", target_ddl, target, layout, files)
        theirs = create(spark, f"{schema}.theirs", target_ddl, target, layout, files)
        result = run_both(
            spark,
            ours,
            theirs,
            lambda: through(spark.createDataFrame(source, source_ddl)),
            on,
            list(clauses),
        )
        assert sorted_rows(spark.table(ours)) == sorted(gives, key=str)
        return result

    return run
