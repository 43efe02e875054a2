"""Expectations as asset checks: one per dataset and name."""

import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import Evaluation
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.declarations import Expectation
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.security.redaction import Redaction

if TYPE_CHECKING:
    from delta_pipelines.dagster.specs.asset_specs import PipelineBinding

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


CheckNames = Mapping[tuple[Identifier, str], str]
"""Table and name of an expectation -> name of its asset check."""


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


def check_specs(binding: "PipelineBinding") -> list[dg.AssetCheckSpec]:
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


def selected_checks(
    binding: "PipelineBinding", identifier: Identifier, selected: Collection[dg.AssetCheckKey]
) -> dict[str, dg.AssetCheckKey]:
    """The checks of a table that a step is to report, by the expectation's name.

    Args:
        binding: The pipeline's datasets, their asset keys and the names of their checks.
        identifier: The table.
        selected: The checks that the step is to report.
    """
    keys = {
        expectation.name: dg.AssetCheckKey(
            binding.key_of(identifier), binding.checks[identifier, expectation.name]
        )
        for expectation in expectations_of(binding.graph, identifier)
    }
    return {name: key for name, key in keys.items() if key in selected}


def checks_left_out(
    binding: "PipelineBinding",
    written: Collection[Identifier],
    selected: Collection[dg.AssetCheckKey],
) -> str | None:
    """Say which selected checks a step cannot evaluate, and why; None when there are none.

    Args:
        binding: The pipeline's datasets, their asset keys and the names of their checks.
        written: The datasets that the step works on.
        selected: The checks that are selected.
    """
    ours = {binding.key_of(identifier) for identifier, _ in binding.checks}
    worked_on = {binding.key_of(identifier) for identifier in written}
    left = sorted(
        f"{key.name} of {key.asset_key.to_user_string()}"
        for key in selected
        if key.asset_key in ours and key.asset_key not in worked_on
    )
    if not left:
        return None
    return (
        f"Checks that are skipped: {', '.join(left)}. A check is evaluated on the rows that a "
        f"refresh of its table writes, and the table is not selected: materialize the asset to "
        f"evaluate its checks."
    )


def check_results(
    checks: Mapping[str, dg.AssetCheckKey], evaluations: Mapping[str, Evaluation], run_id: str
) -> Iterator[dg.AssetCheckResult]:
    """What is known of a dataset's expectations; nothing where no row was ever looked at.

    Args:
        checks: The checks to report, by the expectation's name.
        evaluations: This run's, or an earlier one's of rows that are still there; by name.
        run_id: This run.
    """
    for name, key in checks.items():
        if name not in evaluations:
            continue
        evaluation = evaluations[name]
        found, earlier = evaluation.found, evaluation.run_id != run_id
        metadata: dict[str, str | int | dg.MetadataValue[str]] = {
            "delta_pipelines/rows": found.rows,
            "delta_pipelines/broken": found.broken,
            "delta_pipelines/action": found.action,
        }
        if evaluation.version is not None:
            metadata["delta_pipelines/version"] = evaluation.version
        if earlier:
            metadata["delta_pipelines/evaluated_by"] = dg.MetadataValue.dagster_run(
                evaluation.run_id
            )
        yield dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=found.passed,
            severity=_SEVERITY[found.action],
            description=f"{found}{_of_an_earlier_run(evaluation) if earlier else ''}",
            metadata=metadata,
        )


def _of_an_earlier_run(evaluation: Evaluation) -> str:
    return f". As of version {evaluation.version}: this run looked at no row"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "expectation"
