"""The SQL texts that publish a view."""

import re

import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from delta_pipelines.datasets.view_sql import alter_view_sql, create_view_sql, relabel_view_sql
from delta_pipelines.delta.write.alter_statements import literal
from delta_pipelines.model.identifiers import Identifier

VIEW = Identifier(None, "s", "v")


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


def test_a_view_is_created_with_comment_and_properties() -> None:
    sql = create_view_sql(
        VIEW, "SELECT 1 AS a", comment="it's", properties={"quality": "gold", "a'b": "c\\d"}
    )
    assert sql.splitlines() == [
        "CREATE VIEW `s`.`v`",
        "COMMENT 'it\\'s'",
        "TBLPROPERTIES ('quality' = 'gold', 'a\\'b' = 'c\\\\d')",
        "AS SELECT 1 AS a",
    ]


def test_a_catalog_is_named() -> None:
    sql = create_view_sql(Identifier("c", "s", "v"), "SELECT 1", comment=None, properties={})
    assert sql.startswith("CREATE VIEW `c`.`s`.`v`\n")


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


def test_a_literal_is_not_open_to_sparks_variable_substitution():
    assert "${" not in literal("${spark.hadoop.fs.s3a.secret.key}")


@given(texts, st.dictionaries(texts, texts, max_size=3), st.dictionaries(texts, texts, max_size=3))
def test_a_view_is_relabelled_by_what_differs_and_nothing_else(
    shared: str, before: dict[str, str], after: dict[str, str]
) -> None:
    before, after = before | {"same": shared}, after | {"same": shared}
    statements = relabel_view_sql(VIEW, before, after)
    kept = {key: value for key, value in after.items() if before.get(key) != value}
    gone = [key for key in before if key not in after]
    assert len(statements) == bool(kept) + bool(gone)
    assert all(statement.startswith("ALTER VIEW `s`.`v` ") for statement in statements)
    sql = "\n".join(statements)
    assert literal("same") not in sql
    assert all(f"{literal(key)} = {literal(value)}" in sql for key, value in kept.items())
    assert relabel_view_sql(VIEW, after, after) == []


def test_an_existing_view_gets_its_query_by_one_statement_and_is_never_dropped() -> None:
    assert alter_view_sql(VIEW, "SELECT 1 AS a") == "ALTER VIEW `s`.`v` AS SELECT 1 AS a"
    assert "REPLACE" not in create_view_sql(VIEW, "SELECT 1", comment=None, properties={})
