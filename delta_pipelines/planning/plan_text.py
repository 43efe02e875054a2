"""A plan as text that reads like a diff."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delta_pipelines.planning.plan import DatasetPlan, Plan

_SIGNS = {"create": "+", "refresh": "~", "full_refresh": "!", "none": " "}


def render_plan(plan: "Plan") -> str:
    """Render a plan as lines of text.

    Args:
        plan: The plan.

    Returns:
        A headline, then one block per dataset: sign, name, what and why, and what changes.
    """
    lines = [f"Plan of pipeline {plan.pipeline}: {_counts(plan)}"]
    for dataset in plan.datasets:
        lines += render_dataset(dataset)
    lines += [f"warning: {warning}" for warning in plan.graph.warnings]
    return "\n".join(lines)


def render_dataset(dataset: "DatasetPlan") -> list[str]:
    """One dataset's block of lines."""
    sign = "x" if dataset.error is not None else _SIGNS[dataset.action]
    what = dataset.action.replace("_", " ")
    lines = [f"{sign} {dataset.identifier} ({dataset.kind}): {what} - {dataset.reason}"]
    changes = list(dataset.changes)
    if dataset.action == "create" and dataset.schema is not None:
        changes.insert(0, f"{len(dataset.schema)} columns: {', '.join(dataset.schema.names)}")
    changes += [
        f"reads {i.table} at version {i.version}" for i in dataset.inputs if i.version is not None
    ]
    changes += [f"note: {note}" for note in dataset.notes]
    return lines + [f"    {change}" for change in changes]


def _counts(plan: "Plan") -> str:
    counts: dict[str, int] = {}
    for dataset in plan.datasets:
        key = dataset.action.replace("_", " ")
        if dataset.error is not None:
            key = "skipped" if dataset.skipped else "not possible"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{count} {key}" for key, count in counts.items()) or "nothing selected"
