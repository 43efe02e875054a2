"""A plan as text that reads like a diff, and as plain values."""

import json

from pyspark.sql.types import IntegerType, StructField, StructType

import delta_pipelines as dp
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.query.declared_inputs import InputVersion
from delta_pipelines.planning.refresh_set import RefreshSet
from delta_pipelines.planning.schema.ownership import PropertyChange
from delta_pipelines.planning.schema.schema_diff import SchemaChange

SCHEMA = StructType([StructField("n", IntegerType()), StructField("m", IntegerType())])


def graph() -> Graph:
    p = dp.Pipeline("p", schema="s")
    for name in ("made", "merged", "wiped", "broken", "after", "idle"):
        p.materialized_view(name, "SELECT 1 AS n")
    p.temporary_view("scratch", "SELECT 1 AS n")
    return p.graph()


def dataset(name: str, action: str, reason: str, **rest: object) -> DatasetPlan:
    identifier = Identifier(None, "s", name)
    return DatasetPlan(name, identifier, "materialized_view", action, reason, **rest)


def plan(*datasets: DatasetPlan) -> Plan:
    chosen = RefreshSet(blocked=frozenset([Identifier(None, "s", "merged")]))
    return Plan("p", graph(), NamedSequence(datasets), chosen=chosen)


MADE = dataset("made", "create", "the table does not exist", schema=SCHEMA)
CHANGED = dataset(
    "merged",
    "refresh",
    "the query's rows are merged by key",
    schema=SCHEMA,
    base=TableState(Identifier(None, "s", "merged"), "file:/w", "id", 4, SCHEMA),
    schema_changes=(SchemaChange("add", "m", None, "int"), SchemaChange("drop", "k", "int", None)),
    property_changes=(PropertyChange("a", None, "1"), PropertyChange("b", "1", "2")),
    layout_change="layout: clustered by n -> clustered by m",
    comment_change=(None, "New"),
    inputs=(
        InputVersion("made", "s.made", "run"),
        InputVersion("raw", "landing.raw", "pinned", 12, "id"),
    ),
    notes=("declare a source",),
)
WIPED = dataset("wiped", "full_refresh", "a full refresh was requested", schema=SCHEMA)
BROKEN = dataset("broken", "none", "it cannot be planned", error=dp.DatasetError("no such column."))
AFTER = dataset(
    "after",
    "none",
    "its input broken cannot be planned",
    error=dp.DatasetError("its input broken cannot be planned."),
    skipped=True,
)
IDLE = dataset("idle", "none", "nothing changed")


def block(text: str, name: str) -> list[str]:
    """A dataset's lines: its headline and what is indented below it."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if f" s.{name} " in line)
    end = start + 1
    while end < len(lines) and lines[end].startswith("    "):
        end += 1
    return [line.strip() if at else line for at, line in enumerate(lines[start:end])]


def test_the_headline_counts_what_will_be_done() -> None:
    headline = str(plan(MADE, CHANGED, WIPED, BROKEN, AFTER)).splitlines()[0]
    assert headline == (
        "Plan of pipeline p: 1 create, 1 refresh, 1 full refresh, 1 not possible, 1 skipped"
    )


def test_an_empty_plan_says_so() -> None:
    assert str(plan()).startswith("Plan of pipeline p: nothing selected")


def test_each_dataset_has_the_sign_of_what_happens_to_it_and_the_reason() -> None:
    text = str(plan(MADE, CHANGED, WIPED, BROKEN, AFTER, IDLE))
    signs = {d: block(text, d)[0][0] for d in ("made", "merged", "wiped", "broken", "after")}
    assert signs == {"made": "+", "merged": "~", "wiped": "!", "broken": "x", "after": "x"}
    assert "the table does not exist" in block(text, "made")[0]
    assert "nothing changed" in block(text, "idle")[0]


def test_a_new_table_shows_its_columns() -> None:
    assert block(str(plan(MADE)), "made")[1:] == ["2 columns: n, m"]


def test_every_change_has_its_line() -> None:
    assert block(str(plan(CHANGED)), "merged")[1:] == [
        "column + m int",
        "column - k int",
        "property + a = 1",
        "property ~ b: 1 -> 2",
        "layout: clustered by n -> clustered by m",
        "comment: None -> 'New'",
        "reads landing.raw at version 12",
        "note: declare a source",
    ]


def test_warnings_of_the_graph_come_last() -> None:
    last = str(plan(MADE)).splitlines()[-1]
    assert last.startswith("warning: scratch:")


def test_errors_are_the_root_causes_with_their_locations() -> None:
    made = plan(MADE, BROKEN, AFTER)
    (problem,) = made.errors
    assert "no such column" in problem.message
    assert problem.location == made.graph.tables["broken"].declaration.location


def test_a_plan_is_plain_json() -> None:
    document = json.loads(json.dumps(plan(MADE, CHANGED, BROKEN, AFTER).to_dict()))
    assert document["pipeline"] == "p"
    assert [d["name"] for d in document["datasets"]] == ["made", "merged", "broken", "after"]
    merged = document["datasets"][1]
    assert merged["version"] == 4
    assert merged["schema_changes"][0] == {
        "kind": "add",
        "column": "m",
        "current": None,
        "target": "int",
    }
    assert merged["property_changes"][1] == {"key": "b", "current": "1", "target": "2"}
    assert StructType.fromJson(merged["schema"]) == SCHEMA
    assert len(document["errors"]) == 1
    assert document["reset_blocked"] == ["s.merged"]
    assert "scratch" in document["warnings"][0]


def test_datasets_of_a_plan_are_found_by_name() -> None:
    made = plan(MADE, CHANGED)
    assert made.datasets["made"] is made.datasets["s.made"]
