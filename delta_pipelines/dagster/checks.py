"""Expectations as asset checks: one per dataset and name."""

import re
from collections.abc import Iterator

import dagster as dg

from delta_pipelines.dagster.specs import PipelineBinding
from delta_pipelines.declarations import Expectation
from delta_pipelines.flows.results import DatasetResult
from delta_pipelines.graph.graph import Graph
from delta_pipelines.identifiers import Identifier

_SEVERITY = {
    "warn": dg.AssetCheckSeverity.WARN,
    "drop": dg.AssetCheckSeverity.WARN,
    "fail": dg.AssetCheckSeverity.ERROR,
}
_MEANS = {
    "warn": "Rows that break it are written and counted.",
    "drop": "Rows that break it are left out and counted.",
    "fail": "A row that breaks it refuses the refresh.",
}


def check_specs(binding: PipelineBinding) -> list[dg.AssetCheckSpec]:
    """The asset checks of a pipeline.

    Args:
        binding: Its datasets and their asset keys.
    """
    return [
        dg.AssetCheckSpec(
            name=name,
            asset=binding.key_of(table.identifier),
            description=f"{expectation.name}: `{expectation.condition}`. "
            f"{_MEANS[expectation.action]}",
            metadata={"condition": expectation.condition, "action": expectation.action},
        )
        for table in binding.graph.tables
        for expectation, name in check_names(binding.graph, table.identifier).values()
    ]


def check_names(graph: Graph, identifier: Identifier) -> dict[str, tuple[Expectation, str]]:
    """A table's expectations by name, each with the name of its check, which Dagster limits.

    Flows of one table may share an expectation's name; they share the check then.

    Args:
        graph: The pipeline's graph.
        identifier: A table.
    """
    named: dict[str, tuple[Expectation, str]] = {}
    for flow in graph.flows_of(identifier):
        for expectation in flow.declaration.expectations:
            taken = {name for _, name in named.values()}
            if expectation.name not in named:
                named[expectation.name] = (expectation, _free(expectation.name, taken))
    return named


def check_results(
    binding: PipelineBinding, result: DatasetResult, selected: set[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """What a run found of a dataset's expectations; nothing where it looked at no row.

    Args:
        binding: The pipeline's datasets and their asset keys.
        result: The dataset's.
        selected: The checks that this step is to report.
    """
    if not result.expectations:
        return
    key, names = binding.key_of(result.identifier), check_names(binding.graph, result.identifier)
    for found in result.expectations:
        _, name = names[found.name]
        if dg.AssetCheckKey(key, name) not in selected:
            continue
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=found.passed,
            severity=_SEVERITY[found.action],
            description=str(found),
            metadata={
                "delta_pipelines/rows": found.rows,
                "delta_pipelines/broken": found.broken,
                "delta_pipelines/action": found.action,
            },
        )


def _free(name: str, taken: set[str]) -> str:
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "expectation"
    number, free = 1, stem
    while free in taken:
        number += 1
        free = f"{stem}_{number}"
    return free
