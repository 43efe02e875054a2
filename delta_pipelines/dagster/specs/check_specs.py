"""Expectations as asset checks: one per dataset and name."""

import itertools
import os
import re
from collections.abc import Mapping

import dagster as dg

from delta_pipelines.dagster.specs.binding import CheckNames, PipelineBinding
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.declarations import Expectation
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.security.redaction import Redaction

_MEANS = {
    "warn": "Rows that break it are written and counted.",
    "drop": "Rows that break it are left out and counted.",
    "fail": "A row that breaks it refuses the refresh.",
}


def check_names(graph: Graph, identifiers: Mapping[dg.AssetKey, Identifier]) -> CheckNames:
    """Name the asset checks of a pipeline; flows of one table share an expectation by its name.

    Dagster takes letters, digits and `_`, and wants the keys of assets and those of checks behind
    the keys of their assets to be all different when they are joined by `_`.

    Args:
        graph: The pipeline's graph.
        identifiers: Asset key -> dataset.
    """
    prefixes = {identifier: key.to_python_identifier() for key, identifier in identifiers.items()}
    taken, named = set(prefixes.values()), dict[tuple[Identifier, str], str]()
    for table in graph.tables:
        for expectation in expectations_of(graph, table.identifier):
            prefix, stem = prefixes[table.identifier], _plain(expectation.name)
            numbered = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(2)))
            name = next(name for name in numbered if f"{prefix}_{name}" not in taken)
            taken.add(f"{prefix}_{name}")
            named[table.identifier, expectation.name] = name
    return named


def check_specs(binding: PipelineBinding) -> list[dg.AssetCheckSpec]:
    """The asset checks of a pipeline.

    Args:
        binding: Its datasets, their asset keys and the names of their checks.
    """
    known = Redaction.of(os.environ)
    return [
        dg.AssetCheckSpec(
            name=binding.checks[table.identifier, expectation.name],
            asset=binding.key_of(table.identifier),
            description=known.text(
                f"{expectation.name}: `{expectation.condition}`. {_MEANS[expectation.action]}"
            ),
            metadata={"delta_pipelines/action": expectation.action},
        )
        for table in binding.graph.tables
        for expectation in expectations_of(binding.graph, table.identifier)
    ]


def expectations_of(graph: Graph, identifier: Identifier) -> list[Expectation]:
    """A table's expectations, those of all its flows, each name once.

    Args:
        graph: The pipeline's graph.
        identifier: A table.
    """
    flows = graph.flows_of(identifier)
    found = (expectation for flow in flows for expectation in flow.declaration.expectations)
    return list({expectation.name: expectation for expectation in found}.values())


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "expectation"
