"""Find what earlier attempts at a run finished, so that a retry does only the rest.

There are earlier attempts if a `RetryPolicy` runs the op again, or if the run resumes another run
from its failure. Dagster then passes the same run config, and its own retry of failed steps selects
all assets of the op again.
"""

from dataclasses import dataclass

import dagster as dg

from delta_pipelines.dagster.run_config import launched_request
from delta_pipelines.planning.refresh_request import RefreshRequest

FROM_FAILURE_TAGS = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
"""Dagster's tags of a run that resumes its parent from a failure."""


@dataclass(frozen=True)
class Attempt:
    """One earlier attempt.

    Args:
        run_id: Id of its Dagster run, also recorded in its commits.
        request: The refresh that its run config requested.
        finished: Assets whose outputs it yielded: those that it refreshed to the end.
    """

    run_id: str
    request: RefreshRequest
    finished: frozenset[dg.AssetKey]


def earlier_attempts(context: dg.AssetExecutionContext) -> tuple[Attempt, ...]:
    """Find the attempts that this step continues, the latest first.

    A run that repeats all steps of another run continues nothing.
    """
    run = context.run
    attempts = []
    if context.op_execution_context.retry_number > 0:
        attempts.append(_attempt(context, run))
    while run.parent_run_id and any(run.tags.get(tag) == "true" for tag in FROM_FAILURE_TAGS):
        parent = context.instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            break
        attempts.append(_attempt(context, parent))
        run = parent
    return tuple(attempts)


def _attempt(context: dg.AssetExecutionContext, run: dg.DagsterRun) -> Attempt:
    # Not its materializations: a failed dataset reports the partitions that were done before.
    records = context.instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT
    ).records
    events = [record.event_log_entry.dagster_event for record in records]
    outputs = {event.step_output_data.output_name for event in events if event is not None}
    keys = context.assets_def.keys_by_output_name
    finished = frozenset(keys[name] for name in outputs if name in keys)
    return Attempt(run.run_id, launched_request(context, run), finished)
