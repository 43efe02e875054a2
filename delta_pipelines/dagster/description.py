"""An asset's description: the comment, then its queries as code blocks."""

import inspect
import textwrap
from collections.abc import Sequence

from delta_pipelines.declarations import Declaration, Query


def describe(
    declaration: Declaration,
    append_flows: Sequence[Declaration] = (),
    *,
    include_query: bool = True,
) -> str | None:
    """Compose a dataset's description as markdown.

    Args:
        declaration: The dataset.
        append_flows: Flows that fill it besides its own query; each is told by its name.
        include_query: False leaves the code blocks out.

    Returns:
        Comment and code, None when there is neither.

    Example:
        >>> print(describe(Declaration("n", "view", Query(sql="SELECT 1"), comment="One")))
        One
        <BLANKLINE>
        ```sql
        SELECT 1
        ```
    """
    parts = [declaration.comment] if declaration.comment else []
    if include_query:
        block = _code_block(declaration.query)
        parts += [block] if block else []
        for flow in append_flows:
            block = _code_block(flow.query)
            told = [flow.comment] if flow.comment else []
            parts += [f"**Append flow `{flow.name}`**", *told, *([block] if block else [])]
    return "\n\n".join(parts) or None


def _code_block(query: Query | None) -> str | None:
    if query is None:
        return None
    if query.sql is not None:
        return _fenced("sql", query.sql)
    if query.function is None:
        return None
    try:
        return _fenced("python", inspect.getsource(query.function))
    except (OSError, TypeError):
        return None


def _fenced(language: str, code: str) -> str:
    # A fence must be longer than any run of backticks in the code, which SQL may well have.
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{textwrap.dedent(code).strip()}\n{fence}"
