"""What the own executors add to rows has names that are looked for in tables and sources."""

import ast
from pathlib import Path

import delta_pipelines
from delta_pipelines.delta import own_columns
from delta_pipelines.delta.own_columns import OWN_COLUMNS

PACKAGE = Path(delta_pipelines.__file__).parent
EXECUTORS = (
    *("delta/fixed_rows.py", "delta/merge_parts.py", "delta/merge_transaction.py"),
    *("delta/numbered.py", "merge/insert_only.py", "merge/matches.py", "merge/own.py"),
    "merge/prepared.py",
)


def own_names(path: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("__dp_")
    }


def test_every_column_that_is_named_is_among_those_that_are_looked_for():
    assert set(OWN_COLUMNS) == own_names(Path(own_columns.__file__))
    assert len(set(OWN_COLUMNS)) == len(OWN_COLUMNS)


def test_no_executor_has_a_name_of_its_own():
    assert own_names(PACKAGE / "merge/unchanged.py")  # it is no executor, and the search finds it
    assert {
        path: own_names(PACKAGE / path) for path in EXECUTORS if own_names(PACKAGE / path)
    } == {}
