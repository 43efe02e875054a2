"""What is wrong with a dataset's expectations, told without a JVM."""

from delta_pipelines.declarations import Declaration
from delta_pipelines.graph.row_expressions import row_expression_problem

KINDS = ("materialized_view", "streaming_table", "append_flow", "upsert")
"""Kinds whose rows are written, so that they can be counted on the way."""


def expectation_problems(declaration: Declaration) -> list[str]:
    """Problems of one declaration's expectations, as sentences.

    Args:
        declaration: A dataset or an append flow.

    Example:
        >>> from delta_pipelines.declarations import Expectation
        >>> odd = Expectation("odd", "n %", "warn")
        >>> expectation_problems(Declaration("t", "upsert", expectations=(odd,)))
        ["expectation 'odd': 'n %' is not a SQL expression."]
    """
    if not declaration.expectations:
        return []
    if declaration.kind not in KINDS:
        kind = declaration.kind.replace("_", " ")
        return [f"a {kind} has no expectations: nothing is written. Put them to what reads it."]
    names = [expectation.name for expectation in declaration.expectations]
    repeated = sorted({name for name in names if names.count(name) > 1})
    texts = [f"the expectation {name!r} is there more than once." for name in repeated]
    texts += ["an expectation has an empty name."] * any(not name.strip() for name in names)
    for expectation in declaration.expectations:
        problem = row_expression_problem(expectation.condition)
        if problem:
            texts.append(f"expectation {expectation.name!r}: {problem}")
    return texts
