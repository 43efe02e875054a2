"""The SQL text that publishes a view."""

import re

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from sqlglot import exp

import delta_pipelines as dp
from delta_pipelines.datasets.view_sql import (
    create_view_sql,
    is_published,
    literal,
    published_sql,
    unnamed_columns,
)
from delta_pipelines.delta.view import ViewState
from delta_pipelines.graph.graph import Flow
from delta_pipelines.identifiers import Identifier

VIEW = Identifier(None, "s", "v")
SCHEMA = StructType([StructField("n", IntegerType())])


def spark_value(literal_text: str) -> str:
    """What Spark's lexer makes of a literal: backslash escapes (Spark: `unescapeSQLString`)."""
    escapes = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
    assert literal_text[0] == literal_text[-1] == "'"
    value, rest = "", literal_text[1:-1]
    while rest:
        if octal := re.match(r"\\([01][0-7]{2})", rest):
            value, rest = value + chr(int(octal[1], 8)), rest[4:]
        elif rest[0] == "\\":
            value, rest = value + escapes.get(rest[1], rest[1]), rest[2:]
        else:
            assert rest[0] != "'", "the literal ends too early"
            value, rest = value + rest[0], rest[1:]
    return value


# No catalog keeps a NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(texts | st.text("'\\\n\"`;-", max_size=8))
def test_a_literal_is_read_as_the_text_it_was_made_from(text: str) -> None:
    assert spark_value(literal(text)) == text


def test_a_view_is_created_or_replaced_with_comment_and_properties() -> None:
    sql = create_view_sql(
        VIEW, "SELECT 1 AS a", comment="it's", properties={"quality": "gold", "a'b": "c\\d"}
    )
    assert sql.splitlines() == [
        "CREATE OR REPLACE VIEW `s`.`v`",
        "COMMENT 'it\\'s'",
        "TBLPROPERTIES ('quality' = 'gold', 'a\\'b' = 'c\\\\d')",
        "AS SELECT 1 AS a",
    ]


def test_a_catalog_is_named() -> None:
    sql = create_view_sql(Identifier("c", "s", "v"), "SELECT 1", comment=None, properties={})
    assert sql.startswith("CREATE OR REPLACE VIEW `c`.`s`.`v`\n")


@pytest.mark.parametrize("sql", ["SELECT 1 AS a;", "  SELECT 1 AS a ;; \n", "SELECT 1 AS a"])
def test_the_end_of_the_statement_is_left_out(sql: str) -> None:
    made = create_view_sql(VIEW, sql, comment=None, properties={})
    assert made.endswith("\nAS SELECT 1 AS a")


def test_the_select_is_kept_as_it_was_written() -> None:
    sql = "SELECT  /* why */ a,\n\t'x;' AS b -- note\nFROM t"
    made = create_view_sql(VIEW, sql, comment=None, properties={})
    assert made.endswith(f"\nAS {sql}")


@given(texts, st.dictionaries(texts, texts, max_size=2))
def test_a_comment_or_property_never_ends_the_statement_early(
    comment: str, properties: dict[str, str]
) -> None:
    sql = create_view_sql(VIEW, "SELECT 1 AS a", comment=comment, properties=properties)
    (statement,) = sqlglot.parse(sql, read="spark")
    assert isinstance(statement, exp.Create)
    assert statement.expression.sql() == "SELECT 1 AS a"


def flow(sql: str, **options: object) -> Flow:
    p = dp.Pipeline("p", schema="s")
    for name in ("flights", "other.airports", "c.s.planes"):
        p.materialized_view(name, "SELECT 1 AS n")
    p.view("v", sql, **options)
    return p.graph().flows["v"]


@pytest.mark.parametrize(
    ("sql", "published"),
    [
        ("SELECT * FROM flights", "SELECT * FROM flights"),
        ("SELECT * FROM s.flights AS f;", "SELECT * FROM s.flights AS f"),
        ("SELECT * FROM `Flights`", "SELECT * FROM `Flights`"),
        ("SELECT * FROM other.airports", "SELECT * FROM other.airports"),
        ("SELECT * FROM theirs.t", "SELECT * FROM theirs.t"),
    ],
)
def test_names_that_the_catalog_knows_stay_as_they_were_written(sql: str, published: str) -> None:
    assert published_sql(flow(sql)) == published


@pytest.mark.parametrize(
    ("bound", "published"),
    [
        ("flights", "SELECT x.n FROM `s`.`flights` AS `x`"),
        ("other.airports", "SELECT x.n FROM `other`.`airports` AS `x`"),
        ("c.s.planes", "SELECT x.n FROM `c`.`s`.`planes` AS `x`"),
    ],
)
def test_bound_names_become_the_datasets_and_stay_as_aliases(bound: str, published: str) -> None:
    assert published_sql(flow("SELECT x.n FROM x", inputs={"x": bound})) == published


def test_a_bound_name_with_an_alias_keeps_its_alias() -> None:
    made = flow("SELECT f.n FROM x AS f", inputs={"x": "flights"})
    assert published_sql(made) == "SELECT f.n FROM `s`.`flights` AS f"


def test_a_dataset_of_another_catalog_is_named_in_full() -> None:
    made = flow("SELECT * FROM planes", inputs={"planes": "c.s.planes"})
    assert published_sql(made) == "SELECT * FROM `c`.`s`.`planes` AS `planes`"


def test_a_function_cannot_be_published() -> None:
    p = dp.Pipeline("p", schema="s")

    @p.materialized_view
    def t(spark): ...

    with pytest.raises(dp.DatasetError, match="SQL text"):
        published_sql(p.graph().flows["t"])


def test_a_view_is_published_only_when_text_comment_properties_and_columns_are_the_same() -> None:
    declared = flow("SELECT * FROM flights;", comment="c", table_properties={"a": "1"})

    def state(**changed: object) -> ViewState:
        same = {"text": "SELECT * FROM flights", "comment": "c", "properties": {"a": "1"}}
        return ViewState(VIEW, **{"schema": SCHEMA, **same, **changed})

    assert is_published(state(), declared, SCHEMA)
    not_null = StructType([StructField("n", IntegerType(), False)])
    assert is_published(state(), declared, not_null)
    wider = StructType([StructField("n", LongType())])
    assert not is_published(state(), declared, wider)
    assert not is_published(state(text="SELECT 1"), declared, SCHEMA)
    assert not is_published(state(text=None), declared, SCHEMA)
    assert not is_published(state(comment=None), declared, SCHEMA)
    assert not is_published(state(properties={}), declared, SCHEMA)


def test_columns_that_spark_named_itself_are_found() -> None:
    generated = StructField("(1 + n)", IntegerType(), True, {"__autoGeneratedAlias": "true"})
    assert unnamed_columns(StructType([*SCHEMA.fields, generated])) == ["(1 + n)"]
