"""Wrong expressions of an upsert are reported while planning, before anything is written."""

import re
from typing import TYPE_CHECKING

import pytest

import delta_pipelines as dp
from delta_pipelines_tests.support.pipelines import Feed, merged, rows_of, run_well, scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sequence_by": "seen_onn"}, "sequence_by 'seen_onn': .*UNRESOLVED_COLUMN"),
        (
            {"deletes_when": "icao"},
            "deletes_when 'icao' has the type string; a condition must be boolean",
        ),
        ({"deletes_when": "gone = true"}, "deletes_when 'gone = true': .*UNRESOLVED_COLUMN"),
    ],
)
def test_an_expression_that_does_not_fit_the_query_cannot_be_planned(
    spark: "SparkSession", schema: str, options: dict[str, str], reason: str
) -> None:
    pipeline = dp.Pipeline("air", schema=schema)
    pipeline.upsert("airports", "SELECT 'LHR' AS icao, 1 AS seen_on", keys=["icao"], **options)
    plan = pipeline.plan(spark)
    (problem,) = plan.errors
    assert re.search(reason, str(problem))
    assert not spark.catalog.tableExists(f"{schema}.airports")


def test_an_expression_over_several_columns_fits(spark: "SparkSession", schema: str) -> None:
    pipeline = dp.Pipeline("air", schema=schema)
    pipeline.upsert(
        "airports",
        "SELECT 'LHR' AS icao, 1 AS seen_on, CAST(NULL AS INT) AS changed_on",
        keys=["icao"],
        sequence_by="coalesce(changed_on, seen_on)",
        deletes_when="icao = '' OR seen_on < 0",
    )
    assert not pipeline.plan(spark).errors


@pytest.mark.parametrize(
    "sequence",
    [
        "to_char(n, '000000')",
        "variant_get(parse_json(p), '$.n', 'int')",
        "t.n -- a field of a column that is called as the target",
        "collate(s, 'UTF8_LCASE')",
    ],
)
def test_a_sequence_means_the_same_of_the_source_and_of_the_target(spark, schema, sequence) -> None:
    feed = Feed("id INT, n INT, p STRING, s STRING, t STRUCT<n: INT>, v STRING")

    def row(n: int, v: str) -> tuple[object, ...]:
        return (1, n, f'{{"n": {n}}}', f"{n:06}", (n,), v)

    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"], sequence_by=sequence)
    for n, v, stands in [(42, "a", "a"), (43, "b", "b"), (5, "old", "b"), (100, "c", "c")]:
        feed.set(row(n, v))
        run_well(pipeline, spark)
        assert [found[-1] for found in rows_of(spark, f"{schema}.t")] == [stands]


def test_a_name_that_may_be_a_function_is_refused(spark, schema) -> None:
    pipeline = scratch(schema)
    merged(pipeline, "t", Feed("id INT", (1,)), keys=["id"], sequence_by="coalesce(user, id)")
    (problem,) = pipeline.plan(spark).errors
    assert "it is not clear which of its names are columns" in str(problem)
