"""Compose an asset's description: its comment, then its queries as code blocks."""

import inspect
import os
import textwrap
from collections.abc import Sequence

from delta_pipelines.model.declarations import Declaration, Query
from delta_pipelines.security.redaction import Redaction


def describe(
    declaration: Declaration,
    append_flows: Sequence[Declaration] = (),
    *,
    include_query: bool = True,
) -> str | None:
    """Compose a dataset's description as markdown.

    Literals in the code that look like credentials are shown as `***`, because the UI has more
    readers than the repository: the user part of a URL, `password="..."`,
    `.option("password", "...")`, and the value of a secret environment variable.

    Args:
        append_flows: Flows that fill it in addition to its own query; shown under their names.
        include_query: False omits the code blocks.

    Returns:
        Comment and code; None if there is neither.

    Example:
        >>> print(describe(Declaration("n", "view", Query(sql="SELECT 1"), comment="One")))
        One
        <BLANKLINE>
        ```sql
        SELECT 1
        ```
    """
    known = Redaction.of(declaration.spark_conf, os.environ)
    parts = [known.text(declaration.comment)] if declaration.comment else []
    if include_query:
        block = _code_block(declaration.query)
        parts += [known.code(block)] if block else []
        for flow in append_flows:
            known = Redaction.of(flow.spark_conf, os.environ)
            block = _code_block(flow.query)
            comment = [known.text(flow.comment)] if flow.comment else []
            code = [known.code(block)] if block else []
            parts += [f"**Append flow `{flow.name}`**", *comment, *code]
    return "\n\n".join(parts) or None


def _code_block(query: Query | None) -> str | None:
    if query is None:
        return None
    if query.sql is not None:
        return fenced("sql", query.sql)
    if query.function is None:
        return None
    try:
        return fenced("python", inspect.getsource(query.function))
    except (OSError, TypeError):
        return None


def fenced(language: str, code: str) -> str:
    """A code block of markdown.

    Example:
        >>> print(fenced("sql", "SELECT 1"))
        ```sql
        SELECT 1
        ```
    """
    # The fence must be longer than any sequence of backticks in the code; SQL uses backticks.
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{textwrap.dedent(code).strip()}\n{fence}"
