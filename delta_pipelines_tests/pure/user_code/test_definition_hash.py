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
