"""The colours of a plan in the terminal follow the signs of its lines."""

import pytest

import delta_pipelines as dp
from delta_pipelines.cli.plan_view import plan_text
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.schema.ownership import CONSTRAINT, PropertyChange
from delta_pipelines.planning.schema.schema_diff import SchemaChange


def styles(schema: str = "s", **fields: object) -> dict[str, str]:
    """Each line of the plan of one table, without its indent, and its style."""
    identifier = Identifier(None, schema, "t")
    fields = {"action": "refresh", "reason": "why", **fields}
    dataset = DatasetPlan("t", identifier, "materialized_view", **fields)  # type: ignore[arg-type]
    text = plan_text(Plan("p", dp.Pipeline("p", schema="s").graph(), NamedMapping([dataset])))
    return {text.plain[s.start : s.end].strip(): str(s.style) for s in text.spans}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"schema_changes": (SchemaChange("add", "n", None, "int"),)}, "column + n int"),
        ({"property_changes": (PropertyChange("k", None, "v"),)}, "property + k = v"),
        (
            {"property_changes": (PropertyChange(f"{CONSTRAINT}positive", None, "n > 0"),)},
            "constraint + positive = n > 0",
        ),
    ],
)
def test_what_is_added_is_green(change: dict[str, object], line: str) -> None:
    assert styles(**change)[line] == "green"


@pytest.mark.parametrize(
    ("fields", "style"),
    [
        ({"action": "create"}, "green"),
        ({"action": "refresh"}, "yellow"),
        ({"action": "full_refresh"}, "bold magenta"),
        ({"action": "none", "error": DatasetError("it fails.")}, "bold red"),
        ({"action": "none"}, ""),
        ({"action": "none", "schema": "x"}, ""),
    ],
)
def test_the_line_of_a_dataset_has_the_colour_of_its_sign(
    fields: dict[str, object], style: str
) -> None:
    found = styles(**fields)  # type: ignore[arg-type]
    assert [text for line, text in found.items() if ".t (" in line] == ([style] if style else [])
