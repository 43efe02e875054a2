"""Build asset checks from expectations: one per dataset and name."""

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
    "warn": "Rows that break it are counted and written.",
    "drop": "Rows that break it are counted and not written.",
    "fail": "A row that breaks it fails the refresh.",
}


def check_names(graph: Graph, identifiers: Mapping[dg.AssetKey, Identifier]) -> CheckNames:
    """Name the asset checks of a pipeline; flows of one table share an expectation by its name.

    Dagster allows letters, digits and `_`. All asset keys, and all check names after the key of
    their asset, must be different when their parts are joined by `_`.

    Args:
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
    """Build the asset checks of a pipeline."""
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
    """The expectations of all flows of a table, each name once."""
    flows = graph.flows_of(identifier)
    found = (expectation for flow in flows for expectation in flow.declaration.expectations)
    return list({expectation.name: expectation for expectation in found}.values())


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "expectation"
