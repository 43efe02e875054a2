"""Report a plan and the results of a run: log lines, markdown and the failure."""

from collections.abc import Sequence

import dagster as dg

from delta_pipelines.dagster.run.metadata import MetadataEntry, refresh_word
from delta_pipelines.dagster.specs.description import fenced
from delta_pipelines.errors import PlanError, at_most, is_transient
from delta_pipelines.model.results import DatasetResult, counted, listed
from delta_pipelines.planning.plan import Plan

_HEADER = "| dataset | kind | status | action | reason | version | rows | seconds |"
_RULE = "|---|---|---|---|---|---:|---:|---:|"


def result_line(result: DatasetResult) -> str:
    """One result as a log line."""
    parts = [f"{result.identifier}: {refresh_word(result)}"]
    if not result.succeeded:
        parts = [f"{result.identifier}: {result.status}"]
    if result.rows is not None:
        parts.append(f"{result.rows:,} rows")
    if result.version is not None:
        parts.append(f"version {result.version}")
    parts.append(f"{result.seconds:.1f} s")
    return f"{', '.join(parts)} - {_said(result)}"


def results_table(results: Sequence[DatasetResult]) -> str:
    """The results as a markdown table, in the order in which the datasets ended.

    Of more than 30 datasets, the unchanged and skipped ones are only counted.
    """
    shown = listed(results)
    rows = [_HEADER, _RULE, *(_row(result) for result in shown)] if shown else []
    left_out = len(results) - len(shown)
    more = [f"{left_out:,} unchanged or skipped datasets are not listed."] if left_out else []
    return "\n".join([*rows, *([""] if rows and more else []), *more])


def summary(pipeline: str, results: Sequence[DatasetResult]) -> str:
    """Summarize the results of a run in one sentence."""
    noun = "dataset" if len(results) == 1 else "datasets"
    said = counted(results) or "none selected"
    return f"{len(results):,} {noun} of pipeline {pipeline}: {said}"


def failure(pipeline: str, results: Sequence[DatasetResult]) -> dg.Failure | None:
    """The failure of a run; None if every dataset succeeded.

    A retry is allowed only if every failed dataset failed transiently.
    """
    failed = [result for result in results if result.status == "failed"]
    skipped = [result for result in results if result.status == "skipped"]
    if not failed and not skipped:
        return None
    lines = [f"{summary(pipeline, results)}."]
    lines += at_most([f"- {result.name} failed: {_said(result)}" for result in failed])
    lines += at_most([f"- {result.name} skipped: {_said(result)}" for result in skipped])
    return dg.Failure(
        description="\n".join(lines),
        metadata={
            "datasets": dg.MetadataValue.md(results_table(results)),
            "failed": len(failed),
            "skipped": len(skipped),
        },
        allow_retries=bool(failed) and all(is_transient(result.error) for result in failed),
    )


def plan_metadata(plan: Plan) -> dict[str, MetadataEntry]:
    """A plan as a step's metadata: as text and as plain values."""
    return {
        "plan": dg.MetadataValue.md(fenced("text", str(plan))),
        "datasets": dg.MetadataValue.json(plan.to_dict()),
    }


def plan_failure(plan: Plan) -> dg.Failure | None:
    """The failure of a plan with errors; None if every dataset could be planned.

    A retry is allowed only if every error of the plan is transient.
    """
    if not plan.errors:
        return None
    problems = plan.redaction.error(PlanError(plan.errors)).problems
    count = f"{len(problems)} of {len(plan.datasets)}"
    lines = [f"Nothing was run: {count} datasets of pipeline {plan.pipeline} cannot be planned."]
    lines += at_most([f"- {problem}" for problem in problems])
    errors = [d.error for d in plan.datasets.values() if d.error is not None and not d.skipped]
    return dg.Failure(
        description="\n".join(lines),
        metadata=plan_metadata(plan),
        allow_retries=all(is_transient(error) for error in errors),
    )


def _said(result: DatasetResult) -> str:
    return result.failure or result.reason


def _row(result: DatasetResult) -> str:
    cells = [
        f"`{result.name}`",
        result.kind,
        result.status,
        refresh_word(result) if result.succeeded else "",
        _cell(_said(result)),
        "" if result.version is None else str(result.version),
        "" if result.rows is None else f"{result.rows:,}",
        f"{result.seconds:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
