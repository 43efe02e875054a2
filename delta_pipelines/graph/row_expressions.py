"""Check SQL expressions that are evaluated for each row.

sqlglot costs 0.7 s of CPU to import, so only a pipeline with SQL texts imports it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


PREFIX = "SELECT "
"""Text before an expression when it is parsed; token positions include it."""


def parsed_expression(text: str) -> "exp.Expression":
    """Parse a SQL text that is one expression in Spark's dialect.

    Parse it as the column of a SELECT: alone, `delete = true` would be a statement, and sqlglot
    would not parse a text that begins with `comment`.

    Raises:
        ValueError: The text is not an expression, or more than one.

    Example:
        >>> parsed_expression("delete = true").sql()
        'delete = TRUE'
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    wrong = f"{text!r} is not a SQL expression."
    try:
        statements = sqlglot.parse(f"{PREFIX}{text}", read="spark")
    except SqlglotError as error:
        raise ValueError(wrong) from error
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise ValueError(wrong)
    more = {key for key, value in select.args.items() if value} - {"expressions"}
    tree: exp.Expression = select.expressions[0]
    if more or isinstance(tree, exp.Alias | exp.Star):
        raise ValueError(wrong)
    return tree


def row_expression_problem(text: str) -> str | None:
    """Say why a SQL text cannot be evaluated for each row, or None when it can.

    Example:
        >>> row_expression_problem("amount > 0") is None
        True
        >>> row_expression_problem("count(*) > 0")
        'it is evaluated for each row and cannot have an aggregate, a window function or a generator. Compute it in the query.'
    """  # noqa: E501 - what a user reads is one line
    from sqlglot import exp

    try:
        tree = parsed_expression(text)
    except ValueError as error:
        return str(error)
    if tree.find(exp.Query) is not None:
        return (
            "it is evaluated for each row and cannot have a subquery, whose tables would not be "
            "declared inputs. Join them in the query."
        )
    if tree.find(exp.AggFunc, exp.Window, exp.Explode, exp.Posexplode, exp.Inline) is not None:
        return (
            "it is evaluated for each row and cannot have an aggregate, a window function or a "
            "generator. Compute it in the query."
        )
    return None
