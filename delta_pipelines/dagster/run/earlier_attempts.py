"""What earlier attempts at a run did, so that a retry does only the rest.

An attempt is earlier when a `RetryPolicy` runs the op again, or when the run repeats another one
from its failure: Dagster then gives the same run config, and its own retry of failed steps selects
every asset of the op again.
"""

from dataclasses import dataclass

import dagster as dg

from delta_pipelines.dagster.run_config import RefreshRequest, launched_request

FROM_FAILURE_TAGS = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
"""Dagster's tags of a run that repeats only what its parent did not finish."""


@dataclass(frozen=True)
class Attempt:
    """One earlier attempt.

    Args:
        run_id: Id of its Dagster run, which its commits carry too.
        request: What its run config asked for.
        finished: Assets that it materialized.
    """

    run_id: str
    request: RefreshRequest
    finished: frozenset[dg.AssetKey]


def earlier_attempts(context: dg.AssetExecutionContext) -> tuple[Attempt, ...]:
    """The attempts that this one continues, the latest first.

    A run that repeats all steps of another continues nothing.

    Args:
        context: The running step.
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
    records = context.instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    ).records
    finished = frozenset(r.asset_key for r in records if r.asset_key is not None)
    return Attempt(run.run_id, launched_request(context, run), finished)
