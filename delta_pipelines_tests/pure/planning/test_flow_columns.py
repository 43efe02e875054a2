"""A flow that stops giving a column which it gave before is refused by name."""

import pytest
from pyspark.sql.types import StructField, StructType

import delta_pipelines as dp
from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.checkpoints import Checkpoint, checkpoints_property
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.flow_definition import (
    check_given,
    flow_definition,
    given_columns,
)
from delta_pipelines.planning.schema.schema_evolution import Refused

FEW = StructType().add("id", "integer")
INNER = StructType().add("a", "integer").add("b", "integer")
ALL = StructType().add("id", "integer").add("Name", "string").add("s", INNER)
EVERY = given_columns(ALL)


def refusal(gives: StructType, had: Checkpoint, table: StructType = ALL) -> str | None:
    try:
        check_given(table, {"one": had}, {"One": gives, "two": ALL})
    except Refused as refused:
        return str(refused)
    return None


def test_missing_columns_and_nested_columns_are_reported() -> None:
    message = refusal(FEW, Checkpoint(columns=EVERY)) or ""
    assert "column Name (string) is no longer in flow 'One'" in message
    assert "column s (struct<a:int,b:int>)" in message
    assert "s.a" not in message
    part = StructType([*FEW, ALL["Name"], StructField("s", StructType([INNER["a"]]))])
    assert "column s.b (int)" in (refusal(part, Checkpoint(columns=EVERY)) or "")


@pytest.mark.parametrize("columns", [None, (), ("id",)])
def test_columns_that_a_flow_never_gave_or_recorded_are_not_compared(
    columns: tuple[str, ...] | None,
) -> None:
    assert refusal(FEW, Checkpoint(columns=columns)) is None


def test_a_new_flow_and_a_column_that_the_table_has_no_more_are_fine() -> None:
    check_given(ALL, {"two": Checkpoint(columns=EVERY)}, {"one": FEW, "two": ALL})
    assert refusal(FEW, Checkpoint(columns=EVERY), table=FEW) is None


def defined(schema_drift: str, *, is_full_refresh: bool = False) -> None:
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.create_streaming_table("t", schema_drift=schema_drift)
    for name in ("one", "two"):

        @pipeline.append_flow(target="t", name=name)
        def rows(spark: object) -> object:
            return spark

    table = pipeline.graph().tables["t"]
    assert isinstance(table, Table)
    known = {flow: Checkpoint(columns=EVERY) for flow in ("one", "two")}
    base = TableState(
        Identifier(None, "s", "t"), "file:/t", "id", 3, ALL, properties=checkpoints_property(known)
    )
    given = {"one": FEW, "two": ALL}
    flow_definition(table, base, given, is_full_refresh=is_full_refresh, pipeline="p")


def test_the_own_flow_of_a_table_that_is_declared_with_its_schema_is_compared_too() -> None:
    pipeline = dp.Pipeline("p", schema="s")

    @pipeline.streaming_table(name="other.t")
    def rows(spark: object) -> object:
        return spark

    table = pipeline.graph().tables["other.t"]
    assert isinstance(table, Table)
    (flow,) = pipeline.graph().flows_of(table.identifier)
    known = checkpoints_property({flow.key: Checkpoint(columns=EVERY)})
    base = TableState(table.identifier, "file:/t", "id", 3, ALL, properties=known)
    with pytest.raises(SchemaChangeError, match="column Name"):
        flow_definition(table, base, {flow.name: FEW}, is_full_refresh=False, pipeline="p")


@pytest.mark.parametrize("schema_drift", ["evolve", "add_columns", "fail"])
def test_every_policy_refuses_it_with_the_ways_out(schema_drift: str) -> None:
    with pytest.raises(SchemaChangeError) as raised:
        defined(schema_drift)
    message = str(raised.value)
    assert "let the flow give what the table has" in message
    assert "full_refresh=['t']" in message
    assert ("another schema_drift" in message) == (schema_drift != "evolve")
    defined(schema_drift, is_full_refresh=True)
