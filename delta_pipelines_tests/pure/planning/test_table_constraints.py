"""The constraints of a table that a schema change would break."""

import pytest
from pyspark.sql.types import (
    StructField,
    StructType,
)

import delta_pipelines as dp
from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.table_constraints import broken_constraints, rule_notes
from delta_pipelines.planning.schema.target_definition import table_definition
from delta_pipelines_tests.pure.planning.schemas import INT, LONG, STRING, struct

CURRENT = struct(id=INT, v=INT, s=struct(x=INT, y=INT))


@pytest.mark.parametrize(
    ("condition", "target", "broken"),
    [
        ("v > 0", struct(id=INT), True),
        ("`V` > 0 OR v IS NULL", struct(id=INT), True),
        ("v > 0", struct(id=INT, v=STRING), True),
        ("v > 0", struct(id=INT, v=LONG), False),
        ("v > 0", struct(id=INT, V=INT), False),
        ("s.x > 0", struct(s=struct(y=INT)), True),
        ("s.x > 0", struct(s=struct(x=LONG, y=INT, z=INT)), False),
        ("id > 0", struct(id=INT), False),
        ("this is no condition (", struct(id=INT), False),
    ],
)
def test_a_constraint_breaks_when_a_column_that_it_reads_goes_or_holds_less(
    condition: str, target: StructType, broken: bool
) -> None:
    sentences = broken_constraints(
        {"delta.constraints.pos": condition, "k": "v > 0"}, CURRENT, target
    )
    assert bool(sentences) == broken
    assert all("DROP CONSTRAINT pos" in sentence for sentence in sentences)


def test_a_broken_constraint_refuses_the_refresh_before_it_runs() -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("t", "SELECT 1 AS id")
    base = TableState(
        Identifier(None, "s", "t"),
        "file:/w/t",
        "id",
        3,
        CURRENT,
        properties={"delta.constraints.pos": "v > 0"},
    )
    with pytest.raises(SchemaChangeError, match=r"pos \(v > 0\) reads v"):
        table_definition(
            p.graph().tables["t"], base, struct(id=INT), is_full_refresh=False, pipeline="p"
        )


def test_notes_say_what_becomes_of_generated_defaulted_and_short_columns() -> None:
    current = StructType(
        [
            StructField("g", INT, True, {"delta.generationExpression": "v + 1"}),
            StructField("i", LONG, True, {"delta.identity.start": 1, "delta.identity.step": 1}),
            StructField("d", INT, True, {"CURRENT_DEFAULT": "7"}),
            StructField("c", STRING, True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        ]
    )
    assert rule_notes(current, struct(g=LONG, d=STRING)) == (
        "column g is no longer generated as v + 1: it is dropped or retyped",
        "column i is no longer an identity column: it is dropped or retyped",
        "column d is no longer defaulted to 7: it is dropped or retyped",
        "column c is no longer char(5): it is dropped or retyped",
    )
    (kept,) = rule_notes(current, current)
    assert kept.startswith("column c was declared as char(5)")
    assert rule_notes(CURRENT, struct(id=LONG)) == ()
