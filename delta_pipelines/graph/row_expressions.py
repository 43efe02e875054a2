"""SQL expressions about one row at a time, held against what such an expression may be."""


def row_expression_problem(text: str) -> str | None:
    """Say what keeps a SQL text from being an expression about one row, or None.

    sqlglot costs 0.7 s of CPU to import, so only a pipeline with SQL texts imports it.

    Args:
        text: SQL in Spark's dialect.

    Example:
        >>> row_expression_problem("amount > 0") is None
        True
        >>> row_expression_problem("count(*) > 0")
        'it is about one row: no aggregate, no window and no generator. Compute it in the query.'
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse(text, read="spark")
    except SqlglotError:
        parsed = []
    tree = parsed[0] if len(parsed) == 1 else None
    if tree is None or isinstance(tree, exp.Alias | exp.Star):
        return f"{text!r} is not a SQL expression."
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
