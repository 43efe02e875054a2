"""A definition's hash changes exactly when its rows, schema or layout may."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines.fingerprint import definition_hash


def hashed(declare: Callable[[dp.Pipeline], Any]) -> str:
    pipeline = dp.Pipeline("p", schema="s")
    declare(pipeline)
    (declaration,) = pipeline.declarations
    return definition_hash(declaration)


def sql(query: str = "SELECT 1 AS n", **options: Any) -> str:
    return hashed(lambda p: p.upsert("t", query, **{"keys": ["n"], **options}))


def test_it_is_16_hexadecimal_digits() -> None:
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
    ],
)
def test_it_changes_with_whatever_decides_rows_schema_or_layout(changed: dict[str, Any]) -> None:
    assert sql(**changed) != sql()


@pytest.mark.parametrize(
    "changed",
    [{"owners": ["a@b.c"]}, {"tags": {"a": "1"}}, {"group": "g"}, {"schema_drift": "fail"}],
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


def test_decorators_of_a_function_are_no_part_of_its_query() -> None:
    def plain(p: dp.Pipeline) -> None:
        @p.materialized_view
        def t(spark):
            return spark.range(1)

    def decorated(p: dp.Pipeline) -> None:
        @p.materialized_view(
            owners=["a@b.c"],
            tags={"tier": "1"},
        )
        def t(spark):
            # The same query.
            return spark.range(1)

    def other(p: dp.Pipeline) -> None:
        @p.materialized_view
        def t(spark):
            return spark.range(2)

    assert hashed(plain) == hashed(decorated)
    assert hashed(plain) != hashed(other)


def test_a_lambda_is_told_by_its_source() -> None:
    one = hashed(lambda p: p.materialized_view("t")(lambda spark: spark.range(1)))
    two = hashed(lambda p: p.materialized_view("t")(lambda spark: spark.range(2)))
    assert one != two


def test_a_partial_is_told_by_its_function_and_arguments() -> None:
    def rows(spark, n):
        return spark.range(n)

    def of(n: int) -> str:
        return hashed(lambda p: p.materialized_view("t")(partial(rows, n=n)))

    assert of(1) == of(1)
    assert of(1) != of(2)


class Query:
    def __call__(self, spark):
        return spark.range(1)


class OtherQuery:
    def __call__(self, spark):
        return spark.range(2)


def test_a_callable_object_is_told_by_its_call() -> None:
    one = hashed(lambda p: p.materialized_view("t")(Query()))
    assert one == hashed(lambda p: p.materialized_view("t")(Query()))
    assert one != hashed(lambda p: p.materialized_view("t")(OtherQuery()))


SOURCELESS = """
import delta_pipelines as dp
from delta_pipelines.fingerprint import definition_hash

scope = {}
exec(
    "def t(spark):\\n"
    "    return [x for x in map(lambda y: y + 1, spark) if x in {'a', 'b', 'c', 'd'}]",
    scope,
)
pipeline = dp.Pipeline("p", schema="s")
pipeline.materialized_view(scope["t"])
print(definition_hash(pipeline.declarations[0]))
"""


def test_a_function_without_source_has_the_same_hash_in_every_process() -> None:
    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", SOURCELESS],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout

    assert run("1") == run("2")
