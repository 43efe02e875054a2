"""What the own executors add to rows has names that are looked for in tables and sources."""

import ast
from pathlib import Path

import delta_pipelines
from delta_pipelines.delta.merge import internal_columns
from delta_pipelines.delta.merge.internal_columns import OWN_COLUMNS

PACKAGE = Path(delta_pipelines.__file__).parent
EXECUTORS = (
    *(
        "delta/merge/materialized_rows.py",
        "delta/merge/clause_plan.py",
        "delta/merge/transaction.py",
    ),
    *(
        "delta/merge/row_numbers.py",
        "merge/insert_only_executor.py",
        "merge/matches.py",
        "merge/classic_executor.py",
        "merge/attempt.py",
    ),
    "merge/materialize_decision.py",
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
    assert set(OWN_COLUMNS) == own_names(Path(internal_columns.__file__))
    assert len(set(OWN_COLUMNS)) == len(OWN_COLUMNS)


def test_no_executor_has_a_name_of_its_own():
    assert own_names(
        PACKAGE / "merge/skip_unchanged.py"
    )  # it is no executor, and the search finds it
    assert {
        path: own_names(PACKAGE / path) for path in EXECUTORS if own_names(PACKAGE / path)
    } == {}
