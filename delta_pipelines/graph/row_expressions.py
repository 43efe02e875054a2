"""SQL expressions about one row at a time, held against what such an expression may be.

sqlglot costs 0.7 s of CPU to import, so only a pipeline with SQL texts imports it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


PREFIX = "SELECT "
"""What stands before an expression when it is parsed; positions count from its beginning."""


def parsed_expression(text: str) -> "exp.Expression":
    """Parse a SQL text that is one expression.

    It is parsed as what a SELECT gives: by itself `delete = true` would be a statement, and one
    that begins with `comment` would not be looked into.

    Args:
        text: SQL in Spark's dialect.

    Raises:
        ValueError: It is no expression, or more than one.

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
    """Say what keeps a SQL text from being an expression about one row, or None.

    Args:
        text: SQL in Spark's dialect.

    Example:
        >>> row_expression_problem("amount > 0") is None
        True
        >>> row_expression_problem("count(*) > 0")
        'it is about one row: no aggregate, no window and no generator. Compute it in the query.'
    """
    from sqlglot import exp

    try:
        tree = parsed_expression(text)
    except ValueError as error:
        return str(error)
    if tree.find(exp.Query) is not None:
        return (
            "it is about one row, and what a subquery reads would be read unseen. Join it in the "
            "query."
        )
    if tree.find(exp.AggFunc, exp.Window, exp.Explode, exp.Posexplode, exp.Inline) is not None:
        return (
            "it is about one row: no aggregate, no window and no generator. Compute it in the "
            "query."
        )
    return None
