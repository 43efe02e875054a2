"""Texts of plans lose what Spark counts per JVM, and nothing that the user wrote."""

import pytest

from delta_pipelines.delta.plan_text import is_cut, normalised
from delta_pipelines.delta.settings import counts

IDS = range(5, 100)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[a#31, b#30L]\n+- Relation [b#30L,a#31]", "[a#98, b#7L]\n+- Relation [b#7L,a#98]"),
        ("CTERelationDef 4, CTERelationRef 4, true", "CTERelationDef 0, CTERelationRef 0, true"),
        ("lambda x_3#30 + lambda y_4#31", "lambda x_8#90 + lambda y_9#91"),
        ("Range (0, 3, step=1, splits=Some(2))", "Range (0, 3, step=1, splits=Some(64))"),
    ],
)
def test_counted_names_do_not_show(one: str, other: str) -> None:
    assert normalised(one, IDS) == normalised(other, IDS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Project [a#31, a#31]", "Project [a#31, a#32]"),
        ("Filter (a#31 = #3)", "Filter (a#31 = #4)"),
        ("Project [2026-01-01 AS d#31]", "Project [2026-01-02 AS d#31]"),
        ("CTERelationRef 1 CTERelationRef 1", "CTERelationRef 1 CTERelationRef 2"),
        ("Filter (a#31 = #102030)", "Filter (a#31 = #102031)"),
    ],
)
def test_what_the_user_wrote_shows(one: str, other: str) -> None:
    assert normalised(one, IDS) != normalised(other, IDS)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Project [array(1, 2, ... 35 more fields) AS a#31]", True),
        ("Project [array(... 2 more fields) AS a#31]", True),
        ("cast(a#31 as struct<f0:string,... 29 more fields>)", True),
        ("Project [named_struct(f0, (id#0L + ca... 425 more characters", True),
        ("Truncated plan of 495 characters", True),
        ("Filter (a#31 = ...)\n+- Range (0, 3, step=1, splits=Some(2))", False),
    ],
)
def test_a_text_that_spark_cut_is_told(text: str, cut: bool) -> None:
    assert is_cut(text) is cut


def test_settings_that_can_change_rows_count_and_those_of_speed_do_not() -> None:
    rows = ["ansi.enabled", "caseSensitive", "legacy.timeParserPolicy", "storeAssignmentPolicy"]
    assert all(counts(f"spark.sql.{name}") for name in rows)
    speed = ["shuffle.partitions", "adaptive.enabled", "parquet.compression.codec", "warehouse.dir"]
    assert not any(counts(f"spark.sql.{name}") for name in speed)
    assert not counts("spark.app.name")
