"""What a refresh does to a table besides putting rows in."""

from dataclasses import replace

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

import delta_pipelines as dp
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.table_action import TableDecision, decide

SCHEMA = StructType().add("n", IntegerType())
WANTED = TableDefinition(SCHEMA, ("n",), (), {"a": "1"}, "comment")
BASE = TableState(
    Identifier(None, "s", "t"), "file:/w/t", "id", 3, SCHEMA, ("n",), (), {"a": "1"}, "comment"
)


def table(kind: str) -> Table:
    p = dp.Pipeline("p", schema="s")
    if kind == "upsert":
        p.upsert("t", "SELECT 1 AS n", keys=["n"])
    else:
        p.materialized_view("t", "SELECT 1 AS n")
    return p.graph().tables["t"]


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
@pytest.mark.parametrize("is_full_refresh", [True, False])
def test_a_missing_table_is_created_and_nothing_else(kind: str, is_full_refresh: bool) -> None:
    made = decide(table(kind), None, WANTED, is_full_refresh=is_full_refresh)
    assert made == TableDecision(create=True, wipe=False, alter=False)


@pytest.mark.parametrize(
    ("kind", "is_full_refresh", "wipe"),
    [
        ("materialized_view", False, True),
        ("materialized_view", True, True),
        ("upsert", False, False),
        ("upsert", True, True),
    ],
)
def test_rows_go_on_a_full_refresh_and_where_none_are_kept(
    kind: str, is_full_refresh: bool, wipe: bool
) -> None:
    made = decide(table(kind), BASE, WANTED, is_full_refresh=is_full_refresh)
    assert made == TableDecision(create=False, wipe=wipe, alter=False)


@pytest.mark.parametrize(
    "wanted",
    [
        replace(WANTED, schema=StructType().add("n", LongType())),
        replace(WANTED, schema=StructType().add("n", IntegerType(), True, "commented")),
        replace(WANTED, partition_columns=()),
        replace(WANTED, cluster_columns=("n",)),
        replace(WANTED, properties={"a": "2"}),
        replace(WANTED, properties={}),
        replace(WANTED, comment=None),
    ],
)
@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_any_difference_of_the_definition_is_an_alter(kind: str, wanted: TableDefinition) -> None:
    assert decide(table(kind), BASE, wanted, is_full_refresh=False).alter


def test_an_existing_table_compares_equal_to_its_own_definition() -> None:
    assert BASE.definition == WANTED
