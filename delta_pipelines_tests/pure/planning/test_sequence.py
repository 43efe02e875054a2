"""SQL of `sequence_by`: columns of one side of a merge, and the rule of order."""

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from delta_pipelines.planning.query.expressions import newer, not_older, qualified


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("changed_at", "`t`.changed_at"),
        ("`with space`", "`t`.`with space`"),
        ("`it's`", "`t`.`it's`"),
        ("coalesce(a, b)", "coalesce(`t`.a, `t`.b)"),
        ("a + a", "`t`.a + `t`.a"),
        ("payload.version", "`t`.payload.version"),
        ("payload.meta.version", "`t`.payload.meta.version"),
        ("a.b.c.d", "`t`.a.b.c.d"),
        ("greatest(a, b)", "greatest(`t`.a, `t`.b)"),
        ("to_char(n, '000000')", "to_char(`t`.n, '000000')"),
        (
            "variant_get(parse_json(p), '$.n', 'int')",
            "variant_get(parse_json(`t`.p), '$.n', 'int')",
        ),
        ("a -- the b", "`t`.a -- the b"),
        ("  a", "  `t`.a"),
    ],
)
def test_every_column_is_of_the_one_side(expression: str, expected: str) -> None:
    assert qualified(expression, "t") == f"({expected}\n)"


@pytest.mark.parametrize("expression", ["a.b.c.d.e", "a.b.c.d.e.f"])
def test_fields_at_any_depth_are_fields_of_the_one_column(expression: str) -> None:
    assert qualified(expression, "t") == f"(`t`.{expression}\n)"


def test_variables_of_a_lambda_are_not_columns() -> None:
    expected = qualified("aggregate(xs, 0, (acc, x) -> acc + x + y)", "t")
    columns = {
        c.sql("spark") for c in sqlglot.parse_one(expected, read="spark").find_all(exp.Column)
    }
    assert columns == {"`t`.xs", "`t`.y"}


def test_literals_that_look_like_columns_stay() -> None:
    assert qualified("if(a = 'b', 'a', 1)", "t") == "(if(`t`.a = 'b', 'a', 1)\n)"


names = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=10)


@given(names, names)
def test_columns_of_any_name_are_quoted(column: str, alias: str) -> None:
    def quoted(name: str) -> str:
        return f"`{name.replace('`', '``')}`"

    assert qualified(quoted(column), alias) == f"({quoted(alias)}.{quoted(column)}\n)"


@pytest.mark.parametrize("expression", ["", "a +", "(a", "a b c", "'", "a; b"])
def test_an_invalid_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="not a SQL expression"):
        qualified(expression, "t")


@pytest.mark.parametrize(
    ("source", "target", "updates", "deletes"),
    [
        (2, 1, True, True),
        (1, 1, True, False),
        (1, 2, False, False),
        (1, None, True, True),
        (None, None, True, True),
        (None, 1, False, False),
    ],
)
def test_an_older_row_or_one_without_a_sequence_changes_nothing_and_a_deletion_must_be_newer(
    source: int | None, target: int | None, updates: bool, deletes: bool
) -> None:
    row = {"s": source, "t": target}
    assert value(not_older("s", "t"), row) is updates
    assert value(newer("s", "t"), row) is deletes


def value(condition: str, row: dict[str, int | None]) -> object:
    """Evaluate the condition in SQL's three-valued logic."""
    return _value(sqlglot.parse_one(condition, read="spark"), row)


def _value(tree: exp.Expression, row: dict[str, int | None]) -> object:
    match tree:
        case exp.Paren():
            return _value(tree.this, row)
        case exp.Or():
            both = [_value(tree.this, row), _value(tree.expression, row)]
            return True if True in both else None if None in both else False
        case exp.Is():
            return _value(tree.this, row) is None
        case exp.Coalesce():
            found = [_value(each, row) for each in (tree.this, *tree.expressions)]
            return next((each for each in found if each is not None), None)
        case exp.GTE():
            left, right = _value(tree.this, row), _value(tree.expression, row)
            return None if left is None or right is None else left >= right
        case exp.GT():
            left, right = _value(tree.this, row), _value(tree.expression, row)
            return None if left is None or right is None else left > right
        case exp.Column():
            return row[tree.name]
        case exp.Boolean():
            return tree.this
    raise AssertionError(f"unexpected SQL: {tree!r}")
