"""Where a full refresh is not allowed, none is offered as if it were."""

from collections.abc import Mapping

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import delta_pipelines as dp
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.ownership import KIND_KEY, OWNED_KEY
from delta_pipelines.planning.schema.remedies import (
    allowing_it,
    copied_reason,
    from_the_beginning,
    full_refresh_of,
    is_protected,
    not_allowed,
    outdated_reason,
)
from delta_pipelines.planning.schema.target_definition import table_definition

PROTECTED = {"pipelines.reset.allowed": "false"}
ALLOWED = {"pipelines.reset.allowed": "true"}
FULL = "refresh it fully (full_refresh=['t'])"
FIRST = " after allowing that by pipelines.reset.allowed"


def streamed(declared: Mapping[str, str]) -> tuple[Table, tuple[Flow, ...]]:
    p = dp.Pipeline("p", schema="s")
    p.source("landing.new")
    p.create_streaming_table("t", table_properties=declared)
    for name in ("one", "two"):
        p.append_flow(target="t", name=name)(lambda new: new)
    graph = p.graph()
    return graph.tables["t"], graph.flows_of(graph.tables["t"].identifier)


@pytest.mark.parametrize(
    ("declared", "current", "protected"),
    [
        ({}, {}, False),
        (PROTECTED, {}, True),
        ({}, PROTECTED, True),
        (ALLOWED, ALLOWED, False),
        # Either protects: a refresh has to bring the declaration to the table first.
        (ALLOWED, PROTECTED, True),
        ({}, {**PROTECTED, OWNED_KEY: '["pipelines.reset.allowed"]'}, True),
        ({}, {"Pipelines.RESET.allowed": "FALSE"}, True),
        ({}, {"Pipelines.RESET.allowed": " TRUE\n"}, False),
        ({}, {"pipelines.reset.allowed": "true", "PIPELINES.RESET.ALLOWED": "no"}, True),
        *(
            ({}, {"pipelines.reset.allowed": value}, True)
            for value in (
                "",
                "no",
                " false",
                "0",
                "1",
                "yes",
                "t\u0433ue",
                "\uff34\uff32\uff35\uff25",
            )
        ),
    ],
)
def test_a_full_refresh_is_offered_with_what_it_needs(
    declared: Mapping[str, str], current: Mapping[str, str], protected: bool
) -> None:
    table, (one, two) = streamed(declared)
    assert is_protected(table, current) == protected
    first = f" after {allowing_it(table, current)}" if protected else ""
    assert full_refresh_of(table, current) == FULL + first
    full = "refresh the table fully (full_refresh=['t'])" + first
    reset = "keep its rows and read the stream from its beginning (reset_checkpoints=['one'])"
    ways = [reset, full] if protected else [full, reset]
    assert from_the_beginning(table, [one], current) == ", or ".join(ways)
    for reason in (
        outdated_reason(table, two, current, ["its stream input s.up was refreshed fully"]),
        copied_reason(table, (one, two), current),
    ):
        assert (FIRST in reason) == protected
        assert (reason.index("reset_checkpoints") < reason.index("full_refresh")) == protected


def test_why_a_full_refresh_became_a_refresh_names_what_is_not_a_plain_false() -> None:
    free, protected = streamed({})[0], streamed(PROTECTED)[0]
    why = "a full refresh was requested, but pipelines.reset.allowed is "
    assert not_allowed(protected, {}) == not_allowed(protected, PROTECTED) == f"{why}false"
    assert not_allowed(free, PROTECTED) == f"{why}false (on the table)"
    assert not_allowed(free, {"Pipelines.Reset.Allowed": " no"}) == f"{why}' no' (on the table)"


def test_the_remedy_for_a_full_refresh_names_the_declaration_and_the_spelling_on_the_table() -> (
    None
):
    free, protected = streamed({})[0], streamed(PROTECTED)[0]
    alter = "ALTER TABLE s.t SET TBLPROPERTIES ('{}' = 'true')"
    what = "allowing that by pipelines.reset.allowed"
    key = "Pipelines.Reset.Allowed"
    assert allowing_it(protected, {}) == what
    assert allowing_it(free, {key: "no"}) == f"{what} ({alter.format(key)})"
    both = f"in the declaration, and by {alter.format('pipelines.reset.allowed')}"
    assert allowing_it(protected, PROTECTED) == f"{what} ({both})"


def test_the_reason_why_a_flow_stops_stands_before_the_ways_out() -> None:
    table, (one, _) = streamed(PROTECTED)
    assert outdated_reason(table, one, {}, ["its stream input s.up was refreshed fully"]) == (
        "its stream input s.up was refreshed fully since the checkpoint of flow 'one' began. "
        "To continue would duplicate or lose rows, so nothing was read. Ways out: keep its rows "
        "and read that input from its beginning (reset_checkpoints=['one']), or refresh t fully "
        "(full_refresh=['t']) after allowing that by pipelines.reset.allowed."
    )


def test_every_flow_of_a_copied_table_is_named() -> None:
    table, flows = streamed({})
    assert "(reset_checkpoints=['one', 'two'])" in copied_reason(table, flows, {})


def upsert(properties: Mapping[str, str]) -> Table:
    p = dp.Pipeline("p", schema="s")
    p.upsert("t", "SELECT 1 AS n", keys=["n"], table_properties=properties)
    return p.graph().tables["t"]


def refused(declared: Mapping[str, str], schema: StructType, **properties: str) -> str:
    base = TableState(
        Identifier(None, "s", "t"), "file:/w", "id", 4, schema, properties=properties, files=1
    )
    query = StructType([StructField("n", IntegerType())])
    with pytest.raises(DatasetError) as caught:
        table_definition(upsert(declared), base, query, is_full_refresh=False, pipeline="p")
    return str(caught.value)


@pytest.mark.parametrize(("declared", "current"), [(PROTECTED, {}), ({}, PROTECTED)])
def test_so_do_refused_changes_of_schema_kind_and_identity(
    declared: Mapping[str, str], current: Mapping[str, str]
) -> None:
    kept = StructType([StructField("n", IntegerType())])
    narrower = StructType([*kept, StructField("m", LongType())])
    assert FULL + FIRST in refused(declared, narrower, **current)
    assert FULL + FIRST in refused(declared, kept, **current, **{KIND_KEY: "materialized_view"})
    assert FIRST not in refused({}, narrower)
    identity = {"delta.identity.allowExplicitInsert": False}
    numbered = StructType([StructField("n", IntegerType(), metadata=identity)])
    message = refused(declared, numbered, **current)
    assert "leave it out of the query, so that Delta numbers the new rows" in message
    assert "full_refresh" not in message  # nothing has to be wiped for that
