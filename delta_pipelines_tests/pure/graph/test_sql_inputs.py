"""Which tables a SQL text reads, and where it names them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.graph.sql_inputs import (
    NotUnderstood,
    SqlProblem,
    in_parentheses,
    replace_names,
    table_names,
)


def named(sql: str) -> list[str]:
    return [table.name for table in table_names(sql)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM t", ["t"]),
        ("SELECT * FROM t;", ["t"]),
        ("(SELECT * FROM t)", ["t"]),
        ("FROM t SELECT *", ["t"]),
        ("SELECT * FROM t |> WHERE x > 1", ["t"]),
        ("SELECT * FROM s.t JOIN c.s.u USING (id)", ["s.t", "c.s.u"]),
        ("SELECT * FROM a, b LEFT ANTI JOIN c USING (id)", ["a", "b", "c"]),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (SELECT 1 FROM c)", list("abc")),
        ("SELECT (SELECT max(x) FROM b) FROM a UNION ALL SELECT * FROM c", ["b", "a", "c"]),
        ("SELECT * FROM (SELECT * FROM (SELECT * FROM a))", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x)", ["a", "b"]),
        ("SELECT * FROM t LATERAL VIEW explode(xs) AS x", ["t"]),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", ["t"]),
        ("SELECT transform(xs, x -> x + 1) FROM t", ["t"]),
        ("SELECT * FROM range(10)", []),
        ("SELECT * FROM delta.`/folder/x`", ["delta./folder/x"]),
        ("SELECT * FROM `my``table`", ["my`table"]),
        ("SELECT * FROM stream JOIN table AS t JOIN `stream` s", ["stream", "table", "stream"]),
    ],
)
def test_every_table_is_found_in_the_order_of_the_text(sql: str, names: list[str]) -> None:
    assert named(sql) == names


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("WITH x AS (SELECT * FROM a) SELECT * FROM x", ["a"]),
        ("WITH X AS (SELECT * FROM a) SELECT * FROM x", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH c AS (SELECT 1) SELECT * FROM s.c", ["s.c"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", ["b"]),
        ("SELECT * FROM (WITH c AS (SELECT * FROM a) SELECT * FROM c) JOIN c", ["a", "c"]),
        ("WITH c AS (SELECT 1) SELECT * FROM (SELECT * FROM c)", []),
        (
            "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
            [],
        ),
    ],
)
def test_common_table_expressions_are_not_inputs_where_they_are_visible(
    sql: str, names: list[str]
) -> None:
    assert named(sql) == names


def test_names_in_comments_strings_and_hints_are_not_inputs() -> None:
    sql = "SELECT /*+ BROADCAST(x) */ 'FROM y', \"from z\" -- FROM w\n FROM t /* from v */"
    assert named(sql) == ["t"]


def test_a_table_that_is_read_twice_is_found_at_both_positions() -> None:
    assert named("SELECT * FROM t AS one JOIN t AS two USING (id)") == ["t", "t"]


def test_the_alias_of_the_text_is_known() -> None:
    aliases = [t.alias for t in table_names("SELECT * FROM a AS x JOIN b y JOIN c")]
    assert aliases == ["x", "y", None]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "0 statements"),
        ("-- nothing", "0 statements"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT * FROM", "does not parse"),
        ("SELECT ((1", "does not parse"),
        ("'", "does not parse"),
        ("INSERT INTO t SELECT 1", "INSERT"),
        ("DROP TABLE t", "DROP"),
        ("CREATE TABLE t AS SELECT 1", "CREATE"),
        ("DELETE FROM t", "DELETE"),
        ("-- rows\nMERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", "MERGE"),
        ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", "INSERT"),
        ("BEGIN DECLARE n INT; SELECT n; END", "script"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
    ],
)
def test_a_text_that_is_not_one_select_is_refused_with_the_reason(sql: str, why: str) -> None:
    with pytest.raises(SqlProblem, match=why) as caught:
        table_names(sql)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT *\nFROM t\nGROUP BY window(ts, '1 hour')", "line 3, column 19, at ','"),
        ("SELECT x:y.z::string AS v FROM t", "line 1, column 11, at '.'"),
        ("SELECT * FROM f(TABLE(t) PARTITION BY k)", "line 1, column 26, at 'PARTITION BY'"),
        ("FROM t |> SET n = 2", "line 1, column 11, at 'SET'"),
        ("SELECT * FROM f(rows => TABLE(t))", r"TABLE(...)"),
        ("SELECT * FROM STREAM t", "STREAM t"),
        ("SELECT * FROM (TABLE t)", "TABLE t"),
        ("SELECT * FROM IDENTIFIER('t')", "IDENTIFIER(...)"),
        ("TABLE t", "line 1, column 1, at 'TABLE'"),
        ("-- all\n  TABLE t", "line 2, column 3, at 'TABLE'"),
        ("SELECT 'it", "Missing ' from 1:"),
    ],
)
def test_syntax_of_spark_alone_is_reported_with_its_position(sql: str, position: str) -> None:
    with pytest.raises(NotUnderstood) as caught:
        table_names(sql)
    assert position in str(caught.value)


def test_rows_in_the_text_itself_have_no_inputs() -> None:
    assert named("VALUES (1, 'FROM t')") == []
    with pytest.raises(NotUnderstood):
        table_names("VALUES ((SELECT max(n) FROM t))")


@pytest.mark.parametrize("sql", ["SELECT 1;", "SELECT 1 -- one", "-- one\nSELECT 1;  -- (", "'"])
def test_a_comment_never_hides_the_parenthesis_behind_a_query(sql: str) -> None:
    assert in_parentheses(sql).splitlines()[-1] == ")"


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\'"), max_size=12)
spaces = st.sampled_from([" ", "\n", "\t", "\r\n", " /* FROM note */ ", " -- FROM é\n"])
names = st.one_of(
    st.sampled_from(["flights", "s.flights", "C.S.Flights", "`flights`", "`s`.`f`"]),
    st.text("abz_09", min_size=1, max_size=8).map(lambda name: f"t{name}"),
    st.text("a`.日é '", min_size=1, max_size=6).map(lambda n: f"`{n.replace('`', '``')}`"),
)


@st.composite
def selects(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A SELECT over random names, with the names as they stand in the text."""
    first, second, third = draw(names), draw(names), draw(names)
    gap = draw(spaces)
    sql = (
        f"SELECT{gap}'{draw(texts)}' AS lit, x.*{draw(spaces)}FROM{draw(spaces)}{first} AS x"
        f"{gap}JOIN{draw(spaces)}{second}{gap}USING (id){draw(spaces)}"
        f"WHERE id IN (SELECT id FROM {third}{gap})"
    )
    return sql, [first, second, third]


@given(selects())
def test_positions_are_exactly_where_the_text_names_its_tables(
    select: tuple[str, list[str]],
) -> None:
    sql, written = select
    assert [sql[t.start : t.end] for t in table_names(sql)] == written


@given(selects())
def test_replacing_the_names_leaves_every_other_character(select: tuple[str, list[str]]) -> None:
    sql, written = select
    found = table_names(sql)
    placeholders = [f"\0{number}\0" for number in range(len(found))]
    replaced = replace_names(
        sql,
        [(t.start, t.end, placeholder) for t, placeholder in zip(found, placeholders, strict=True)],
    )
    assert len(replaced) - sum(map(len, placeholders)) == len(sql) - sum(map(len, written))
    for placeholder, name in zip(placeholders, written, strict=True):
        assert replaced.count(placeholder) == 1
        replaced = replaced.replace(placeholder, name)
    assert replaced == sql


@given(selects())
def test_the_order_of_the_replacements_does_not_matter(select: tuple[str, list[str]]) -> None:
    sql, _ = select
    replacements = [(t.start, t.end, t.name * 3) for t in table_names(sql)]
    assert replace_names(sql, replacements) == replace_names(sql, replacements[::-1])
