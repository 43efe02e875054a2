"""Scratch pipelines, and what is wrong with them."""

import pytest

import delta_pipelines as dp


def pipeline(**options: str) -> dp.Pipeline:
    return dp.Pipeline("p", **{"schema": "s", **options})


def problems(declared: dp.Pipeline) -> list[str]:
    with pytest.raises(dp.DeclarationError) as caught:
        declared.graph()
    return [problem.message for problem in caught.value.problems]


def only_problem(declared: dp.Pipeline) -> str:
    (problem,) = problems(declared)
    return problem


def numbers(declared: dp.Pipeline, *names: str) -> None:
    for name in names:
        declared.materialized_view(name, "SELECT 1 AS n")
