"""What is wrong with a dataset's expectations, told without a JVM."""

from collections.abc import Iterable

from delta_pipelines.errors import Problem
from delta_pipelines.graph.graph import Flow
from delta_pipelines.graph.row_expressions import row_expression_problem
from delta_pipelines.model.declarations import Declaration, Expectation
from delta_pipelines.model.identifiers import Identifier

KINDS = ("materialized_view", "streaming_table", "append_flow", "upsert")
"""Kinds whose rows are written, so that they can be counted on the way."""


def expectation_problems(declaration: Declaration) -> list[str]:
    """Problems of one declaration's expectations, as sentences.

    Args:
        declaration: A dataset or an append flow.

    Example:
        >>> from delta_pipelines.model.declarations import Expectation
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


def shared_problems(flows: Iterable[Flow]) -> list[Problem]:
    """Expectations that flows of one table name alike and mean differently.

    Args:
        flows: All flows of a pipeline.
    """
    first: dict[tuple[Identifier, str], Expectation] = {}
    problems = []
    for flow in flows:
        for expectation in flow.declaration.expectations:
            known = first.setdefault((flow.target, expectation.name), expectation)
            if known != expectation:
                text = (
                    f"the expectation {expectation.name!r} means something else in another flow of "
                    f"{flow.target}; give it another name."
                )
                problems.append(Problem(text, flow.name, flow.declaration.location))
    return problems
