"""The order of an upsert's rows: SQL of `sequence_by` and of `deletes_when`. Pure text."""

from sqlglot import exp

from delta_pipelines.graph.row_expressions import parsed_expression


def qualified(expression: str, alias: str) -> str:
    """An expression whose columns all belong to one side of a merge.

    Args:
        expression: SQL over unqualified columns.
        alias: The side's alias.

    Raises:
        ValueError: The expression does not parse.

    Example:
        >>> qualified("coalesce(changed_at, made_at)", "t")
        'COALESCE(`t`.`changed_at`, `t`.`made_at`)'
    """
    tree = parsed_expression(expression)
    for column in list(tree.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        replacement: exp.Column | exp.Dot = exp.column(parts[0], table=alias, quoted=True)
        for field in parts[1:]:
            replacement = exp.Dot(
                this=replacement, expression=exp.to_identifier(field, quoted=True)
            )
        if column is tree:
            tree = replacement
        else:
            column.replace(replacement)
    return tree.sql(dialect="spark")


def not_older(source: str, target: str) -> str:
    """The condition that a source row may change its target row.

    A row without a sequence never replaces one that has one; equal sequences do replace, so that
    a corrected batch can be loaded again (the rule of AUTO CDC, SCD type 1).

    Args:
        source: The source row's sequence, as SQL.
        target: The target row's sequence, as SQL.
    """
    return f"({target} IS NULL OR coalesce({source} >= {target}, false))"
