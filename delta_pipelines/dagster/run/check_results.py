"""Build the results of a step's asset checks."""

from collections.abc import Collection, Iterator, Mapping

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import Evaluation
from delta_pipelines.dagster.specs.binding import PipelineBinding
from delta_pipelines.dagster.specs.check_specs import expectations_of
from delta_pipelines.model.identifiers import Identifier

_SEVERITY = {
    "warn": dg.AssetCheckSeverity.WARN,
    "drop": dg.AssetCheckSeverity.WARN,
    "fail": dg.AssetCheckSeverity.ERROR,
}


def selected_checks(
    binding: PipelineBinding, identifier: Identifier, selected: Collection[dg.AssetCheckKey]
) -> dict[str, dg.AssetCheckKey]:
    """The selected checks of a table, by the expectation's name."""
    keys = {
        expectation.name: dg.AssetCheckKey(
            binding.key_of(identifier), binding.checks[identifier, expectation.name]
        )
        for expectation in expectations_of(binding.graph, identifier)
    }
    return {name: key for name, key in keys.items() if key in selected}


def checks_left_out(
    binding: PipelineBinding,
    written: Collection[Identifier],
    selected: Collection[dg.AssetCheckKey],
) -> str | None:
    """Explain which selected checks a step cannot evaluate; None if it can evaluate all.

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
        f"These checks are skipped: {', '.join(left)}. A check is evaluated on the rows that a "
        "refresh of its table writes, and the table is not selected. Materialize the asset to "
        "evaluate its checks."
    )


def check_results(
    checks: Mapping[str, dg.AssetCheckKey], evaluations: Mapping[str, Evaluation], run_id: str
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of a dataset's checks; nothing for a check that was never evaluated.

    Args:
        checks: The checks to report, by the expectation's name.
        evaluations: Evaluations by name, of this run or of an earlier run with the same rows.
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
    return f". As of version {evaluation.version}: this run evaluated no rows"
