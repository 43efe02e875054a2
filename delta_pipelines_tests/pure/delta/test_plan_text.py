"""Texts of plans lose what Spark counts per JVM, and nothing that the user wrote."""

import pytest

from delta_pipelines.delta.query.plan_text import FIRST_ID, is_cut, normalised
from delta_pipelines.delta.query.row_settings import counts

A, B, C, D = (str(FIRST_ID + number) for number in (31, 130, 998, 777))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"[a#{A}, b#{B}L]\n+- R [b#{B}L,a#{A}]", f"[a#{C}, b#{D}L]\n+- R [b#{D}L,a#{C}]"),
        (
            f"CTERelationDef {A}, CTERelationRef {A}, x",
            f"CTERelationDef {B}, CTERelationRef {B}, x",
        ),
        (f"UnionLoop {A}, UnionLoopRef {A}, x", f"UnionLoop {B}, UnionLoopRef {B}, x"),
        (f"lambda x_3#{A} + lambda y_4#{B}", f"lambda x_8#{C} + lambda y_9#{D}"),
        (f"_gen_alias_{A}#{B}", f"_gen_alias_{C}#{D}"),
        ("Range (0, 3, step=1, splits=Some(2))", "Range (0, 3, step=1, splits=Some(64))"),
        (f"SubqueryAlias _pyspark_{'0a' * 16}", f"SubqueryAlias _pyspark_{'1b' * 16}"),
        (f"+- CollectMetrics m, [n#{A}], 7\n   +- R", f"+- CollectMetrics m, [n#{B}], 8\n   +- R"),
    ],
)
def test_counted_names_do_not_show(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"Project [a#{A}, a#{A}]", f"Project [a#{A}, a#{B}]"),
        (f"Filter (a#{A} = #3)", f"Filter (a#{A} = #4)"),
        (f"Project [y_2024 AS d#{A}]", f"Project [y_2025 AS d#{A}]"),
        (f"Project [y_2024#{A}]", f"Project [y_2025#{A}]"),
        (f"CTERelationRef {A} CTERelationRef {A}", f"CTERelationRef {A} CTERelationRef {B}"),
        (f"Filter (a#{A} = #102030)", f"Filter (a#{A} = #102031)"),
        (f"Filter (a#{A} = #1732752000000)", f"Filter (a#{A} = #1732752000001)"),
        ("CollectMetrics m, [n], 7 WHERE 1", "CollectMetrics m, [n], 7 WHERE 2"),
    ],
)
def test_the_text_shows_the_query_of_the_user(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


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
def test_a_text_that_spark_cut_is_detected(text: str, cut: bool) -> None:
    assert is_cut(text) is cut


def test_settings_that_can_change_rows_count_and_those_of_speed_do_not() -> None:
    rows = ["ansi.enabled", "caseSensitive", "legacy.timeParserPolicy", "storeAssignmentPolicy"]
    assert all(counts(f"spark.sql.{name}") for name in rows)
    speed = ["shuffle.partitions", "adaptive.enabled", "parquet.compression.codec", "warehouse.dir"]
    assert not any(counts(f"spark.sql.{name}") for name in speed)
    assert not counts("spark.app.name")
