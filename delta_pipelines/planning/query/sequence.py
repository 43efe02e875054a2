"""The order of an upsert's rows: SQL of `sequence_by` and of `deletes_when`. Pure text."""

from sqlglot import exp

from delta_pipelines.graph.row_expressions import PREFIX, parsed_expression
from delta_pipelines.model.identifiers import quoted


def qualified(expression: str, alias: str) -> str:
    r"""An expression whose columns all belong to one side of a merge.

    The alias is put into the text itself. What sqlglot would write is not always the same
    expression: it makes a cast of `to_char`.

    Args:
        expression: SQL over unqualified columns.
        alias: The side's alias.

    Returns:
        The expression in parentheses; it may end with a comment.

    Raises:
        ValueError: The expression does not parse.

    Example:
        >>> qualified("coalesce(changed_at, made_at)", "t")
        '(coalesce(`t`.changed_at, `t`.made_at)\n)'
    """
    first = [column.parts[0] for column in parsed_expression(expression).find_all(exp.Column)]
    places = {int(part.meta["start"]) - len(PREFIX) for part in first}
    side = f"{quoted(alias)}."
    text = expression
    for place in sorted(places, reverse=True):
        text = f"{text[:place]}{side}{text[place:]}"
    return f"({text}\n)"


def not_older(source: str, target: str) -> str:
    """The condition that a source row may update its target row.

    A row without a sequence never replaces one that has one; equal sequences do replace, so that
    a corrected batch can be loaded again (the rule of AUTO CDC, SCD type 1).

    Args:
        source: The source row's sequence, as SQL.
        target: The target row's sequence, as SQL.
    """
    return f"({target} IS NULL OR coalesce({source} >= {target}, false))"


def newer(source: str, target: str) -> str:
    """The condition that a source row may delete its target row.

    Of a deletion and a row with the same sequence the row wins, whichever comes first (the rule of
    AUTO CDC, SCD type 1).

    Args:
        source: The source row's sequence, as SQL.
        target: The target row's sequence, as SQL.
    """
    return f"({target} IS NULL OR coalesce({source} > {target}, false))"
