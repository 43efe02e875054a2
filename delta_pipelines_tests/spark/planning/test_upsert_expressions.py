"""What an upsert's expressions get wrong is told while planning, before anything is written."""

import re
from typing import TYPE_CHECKING

import pytest

import delta_pipelines as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sequence_by": "seen_onn"}, "sequence_by 'seen_onn': .*UNRESOLVED_COLUMN"),
        ({"deletes_when": "icao"}, "deletes_when 'icao' is string, and a condition is a boolean"),
        ({"deletes_when": "gone = true"}, "deletes_when 'gone = true': .*UNRESOLVED_COLUMN"),
    ],
)
def test_an_expression_that_does_not_fit_the_query_cannot_be_planned(
    spark: "SparkSession", schema: str, options: dict[str, str], told: str
) -> None:
    pipeline = dp.Pipeline("air", schema=schema)
    pipeline.upsert("airports", "SELECT 'LHR' AS icao, 1 AS seen_on", keys=["icao"], **options)
    plan = pipeline.plan(spark)
    (problem,) = plan.errors
    assert re.search(told, str(problem))
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
