"""The policy `schema_drift`: which changes a table takes."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    StructField,
    StructType,
)

import delta_pipelines as dp
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.target_definition import table_definition
from delta_pipelines_tests.pure.planning.schemas import INT, LONG, STRING, struct


def commented(comment: str) -> StructType:
    return StructType([StructField("n", INT, True, {"comment": comment})])


def table(kind: str, policy: str, **options: object) -> Table:
    p = dp.Pipeline("p", schema="s")
    if kind == "upsert":
        p.upsert("t", "SELECT 1 AS n", keys=["n"], schema_drift=policy, **options)
    else:
        p.materialized_view("t", "SELECT 1 AS n", schema_drift=policy, **options)
    return p.graph().tables["t"]


def refreshed(
    kind: str, policy: str, current: StructType, query: StructType, *, full: bool = False
) -> StructType:
    base = TableState(Identifier(None, "s", "t"), "file:/w/t", "id", 3, current)
    declared = table(kind, policy)
    return table_definition(declared, base, query, is_full_refresh=full, pipeline="p").schema


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
@pytest.mark.parametrize(
    ("current", "query", "change"),
    [
        (struct(n=INT), struct(n=INT, m=INT), "+ m int"),
        (struct(n=INT), struct(n=LONG), "~ n type: int -> bigint"),
        (struct(n=INT, s=struct(a=INT)), struct(n=INT, s=struct(a=INT, b=INT)), "+ s.b int"),
    ],
)
def test_fail_refuses_every_change_and_names_the_ways_out(
    kind: str, current: StructType, query: StructType, change: str
) -> None:
    with pytest.raises(SchemaChangeError) as caught:
        refreshed(kind, "fail", current, query)
    message = str(caught.value)
    assert change in message
    for way in ["schema_drift='fail'", "declare another schema_drift", "full_refresh=['t']"]:
        assert way in message
    assert refreshed(kind, "fail", current, query, full=True) == query
    assert refreshed(kind, "evolve", current, query) == query


@pytest.mark.parametrize(
    ("current", "query"),
    [
        (struct(n=INT, m=INT), struct(n=INT)),
        (struct(n=INT, m=INT), struct(m=INT, n=INT)),
        (struct(n=LONG), struct(n=INT)),
        (struct(n=INT, m=INT), struct(n=INT, M=INT)),
        (StructType([StructField("n", INT, False)]), struct(n=INT)),
        (struct(n=ArrayType(INT, False)), struct(n=ArrayType(INT))),
    ],
    ids=["drop", "order", "narrower", "letter case", "NOT NULL", "array of NOT NULL"],
)
@pytest.mark.parametrize("policy", ["fail", "add_columns"])
def test_a_materialized_view_takes_other_changes_only_by_evolve(
    policy: str, current: StructType, query: StructType
) -> None:
    with pytest.raises(SchemaChangeError):
        refreshed("materialized_view", policy, current, query)
    assert refreshed("materialized_view", "evolve", current, query) == query
    assert refreshed("materialized_view", policy, current, query, full=True) == query


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_add_columns_takes_new_ones_at_any_depth_and_nothing_else(kind: str) -> None:
    current = struct(n=INT, xs=ArrayType(struct(a=INT)))
    query = struct(n=INT, xs=ArrayType(struct(a=INT, b=STRING)), m=STRING)
    assert refreshed(kind, "add_columns", current, query) == query
    with pytest.raises(SchemaChangeError, match="accepts only new columns") as caught:
        refreshed(kind, "add_columns", current, struct(n=LONG, xs=query["xs"].dataType))
    assert "xs" not in str(caught.value)


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
@pytest.mark.parametrize("policy", ["fail", "add_columns", "evolve"])
def test_comments_change_under_every_policy(kind: str, policy: str) -> None:
    assert refreshed(kind, policy, commented("old"), commented("new")) == commented("new")


@pytest.mark.parametrize("policy", ["fail", "add_columns"])
def test_a_change_that_leaves_a_kept_table_alone_is_not_drift(policy: str) -> None:
    current = struct(n=LONG, m=INT)
    assert refreshed("upsert", policy, current, struct(m=INT, n=INT)) == current


def test_a_new_table_obeys_no_policy() -> None:
    made = table_definition(
        table("upsert", "fail"), None, struct(n=INT), is_full_refresh=False, pipeline="p"
    )
    assert made.schema == struct(n=INT)


@pytest.mark.parametrize(
    ("kind", "declared", "vectors"),
    [
        ("upsert", {}, "true"),
        ("upsert", {"delta.enableDeletionVectors": "false"}, "false"),
        ("materialized_view", {}, None),
    ],
)
def test_a_new_upsert_has_deletion_vectors_by_default(
    kind: str, declared: dict[str, str], vectors: str | None
) -> None:
    new = table(kind, "evolve", table_properties=declared)
    made = table_definition(new, None, struct(n=INT), is_full_refresh=False, pipeline="p")
    assert made.properties.get("delta.enableDeletionVectors") == vectors


@pytest.mark.parametrize("name", ["__dp_delete", "__DP_op", "__dp_anything"])
@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_a_column_named_as_the_engines_own_is_refused(kind: str, name: str) -> None:
    with pytest.raises(DatasetError, match="rename it in the query"):
        refreshed(kind, "evolve", struct(n=INT), struct(**{"n": INT, name: INT}))


def test_a_table_that_keeps_its_rows_has_no_column_metadata() -> None:
    query = struct(n=INT, _metadata=INT)
    assert refreshed("materialized_view", "evolve", struct(n=INT), query) == query
    with pytest.raises(DatasetError, match="_metadata"):
        refreshed("upsert", "evolve", struct(n=INT), query)
