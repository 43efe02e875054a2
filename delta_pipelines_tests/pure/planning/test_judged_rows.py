"""An expectation about the key alone."""

import pytest

from delta_pipelines.planning.query.judged_rows import reads_only


@pytest.mark.parametrize(
    ("condition", "only"),
    [
        ("id IS NOT NULL", True),
        ("Id > 0 AND `a b`.part <> ''", True),
        ("id IS NOT NULL -- name", True),
        ("id IS NOT NULL AND name IS NOT NULL", False),
        ("name = 'id'", False),
        ("exists(tags, id -> id > 0)", False),
        ("true", False),
        ("t.id > 0", False),
    ],
)
def test_a_condition_reads_the_key_alone_or_something_else(condition: str, only: bool) -> None:
    assert reads_only(condition, ("id", "A B")) is only
