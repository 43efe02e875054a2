"""A definition's hash changes exactly when its rows, schema or layout may."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines.user_code.definition_hash import definition_hash


def hashed(declare: Callable[[dp.Pipeline], Any]) -> str:
    pipeline = dp.Pipeline("p", schema="s")
    declare(pipeline)
    (declaration,) = pipeline.declarations
    return definition_hash(declaration)


def sql(query: str = "SELECT 1 AS n", **options: Any) -> str:
    return hashed(lambda p: p.upsert("t", query, **{"keys": ["n"], **options}))


def test_a_definition_hash_is_16_hexadecimal_digits() -> None:
    assert len(sql()) == 16
    int(sql(), 16)


@pytest.mark.parametrize(
    "changed",
    [
        {"query": "SELECT 2 AS n"},
        {"keys": ["m"]},
        {"sequence_by": "n"},
        {"deletes_when": "n > 1"},
        {"partition_cols": ["n"]},
        {"cluster_by": ["n"]},
        {"table_properties": {"a": "1"}},
        {"comment": "c"},
        {"spark_conf": {"spark.sql.ansi.enabled": "true"}},
        {"inputs": {"t": "other"}},
        {"columns": "n INT"},
        {"column_comments": {"n": "key"}},
        {"constraints": {"positive": "n > 0"}},
    ],
)
def test_the_hash_changes_with_everything_that_decides_rows_schema_or_layout(
    changed: dict[str, Any],
) -> None:
    assert sql(**changed) != sql()


@pytest.mark.parametrize(
    "changed",
    [
        *({"owners": ["a@b.c"]}, {"tags": {"a": "1"}}, {"group": "g"}, {"schema_drift": "fail"}),
        {"deterministic": True},
    ],
)
def test_owners_tags_groups_and_the_drift_policy_decide_no_rows(changed: dict[str, Any]) -> None:
    assert sql(**changed) == sql()


def test_the_kind_counts() -> None:
    query = "SELECT 1 AS n"
    kinds = {
        hashed(lambda p: p.materialized_view("t", query)),
        hashed(lambda p: p.view("t", query)),
        hashed(lambda p: p.upsert("t", query, keys=["n"])),
    }
    assert len(kinds) == 3


def test_the_order_of_columns_counts_and_that_of_mappings_does_not() -> None:
    assert sql(keys=["n", "m"]) != sql(keys=["m", "n"])
    assert sql(table_properties={"a": "1", "b": "2"}) == sql(table_properties={"b": "2", "a": "1"})


def test_a_plain_name_and_a_batch_of_it_are_the_same_input() -> None:
    assert sql(inputs={"t": "x"}) == sql(inputs={"t": dp.Batch("x")})


def test_the_body_of_a_function_is_not_looked_at_for_its_plan_is_made_afresh() -> None:
    def rows(spark, n):
        return spark.range(n)

    def of(function: Callable[..., Any]) -> str:
        return hashed(lambda p: p.materialized_view("t")(function))

    functions = (lambda spark: spark.range(1), lambda spark: spark.range(2), partial(rows, n=3))
    assert len(set(map(of, functions))) == 1
    assert of(rows) != hashed(lambda p: p.materialized_view("t", "SELECT 1 AS n"))


DAYS = dp.DailyPartitions("day", start="2024-01-01")


def divided(query: str = "SELECT 1 AS day", **options: Any) -> str:
    options = {"partitions": DAYS, **options}
    return hashed(lambda p: p.materialized_view("t", query, **options))


def days(column: str = "day", start: str = "2024-01-01", **options: Any) -> dict[str, Any]:
    return {"partitions": dp.DailyPartitions(column, start=start, **options)}


@pytest.mark.parametrize(
    "changed",
    [
        {"comment": "c"},
        {"table_properties": {"a": "1"}},
        {"constraints": {"positive": "day > 0"}},
        {"column_comments": {"day": "the day"}},
        {"partition_cols": ["day"]},
        {"cluster_by": ["day"]},
        *({"owners": ["a@b.c"]}, {"tags": {"a": "1"}}, {"group": "g"}, {"schema_drift": "fail"}),
        days(start="2020-01-01"),
        days(end="2025-01-01"),
        days(end_offset=1),
        {"inputs": {}},
    ],
)
def test_what_leaves_the_rows_of_each_partition_does_not_change_the_hash(
    changed: dict[str, Any],
) -> None:
    assert divided(**changed) == divided()


@pytest.mark.parametrize(
    "changed",
    [
        {"partitions": None},
        days("other"),
        days(timezone="Europe/Berlin"),
        {"partitions": dp.WeeklyPartitions("day", start="2024-01-01")},
        {"partitions": dp.MonthlyPartitions("day", start="2024-01-01")},
        {"partitions": dp.HourlyPartitions("day", start="2024-01-01")},
        {"partitions": dp.StaticPartitions("day", ["2024-01-01"])},
        {"query": "SELECT 2 AS day"},
        {"inputs": {"a": "b"}},
        {"spark_conf": {"spark.sql.ansi.enabled": "true"}},
        {"columns": "day INT"},
    ],
)
def test_what_may_change_the_rows_of_each_partition_changes_the_hash(
    changed: dict[str, Any],
) -> None:
    assert divided(**changed) != divided()


def test_only_the_phase_of_a_start_counts() -> None:
    def of(kind: Any, start: str) -> str:
        return divided(partitions=kind("day", start=start))

    assert of(dp.WeeklyPartitions, "2024-01-07") == of(dp.WeeklyPartitions, "2020-01-05")
    assert of(dp.WeeklyPartitions, "2024-01-07") != of(dp.WeeklyPartitions, "2024-01-08")
    assert of(dp.MonthlyPartitions, "2024-01-01") == of(dp.MonthlyPartitions, "2020-06-01")
    assert of(dp.MonthlyPartitions, "2024-01-01") != of(dp.MonthlyPartitions, "2024-01-02")
    assert of(dp.HourlyPartitions, "2024-01-01") == of(dp.HourlyPartitions, "2020-01-01-07:00")
    assert of(dp.HourlyPartitions, "2024-01-01") != of(dp.HourlyPartitions, "2024-01-01-00:30")


def test_more_values_are_more_partitions_of_the_same_definition() -> None:
    before, after = (dp.StaticPartitions("region", values) for values in (["eu"], ["us", "eu"]))
    assert divided(partitions=before) == divided(partitions=after)
