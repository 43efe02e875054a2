"""Skip a dataset that a refresh would not change: no commit, no Spark job."""

from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.log.data_versions import last_data_version
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.merge_result import merge_metrics
from delta_pipelines.model.results import Outcome, PartitionsResult, TableFacts
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.query.input_binding import flow_session
from delta_pipelines.planning.skipping.dependency_trace import last_write
from delta_pipelines.planning.skipping.skip_decision import DECIDED, Verdict, judge, judge_overtaken
from delta_pipelines.planning.table_action import TableDecision
from delta_pipelines.update.context import UpdateContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def leave_as_planned(
    spark: "SparkSession", planned: DatasetPlan, context: UpdateContext
) -> Outcome | None:
    """Skip a dataset if the plan found nothing to do and this run changed no input.

    A plan that the run has just made is trusted: later changes count for the next run. A plan that
    was passed in may be old: a table is compared with it again, and a view is checked again. No
    lease is needed, because nothing is written.

    Returns:
        None when the dataset must be checked again.
    """
    before = planned.base
    if planned.action != "none" or context.force:
        return None
    if not context.reads_as_planned(planned.identifier):
        return None
    if planned.kind == "view" and planned.schema is not None and context.just_planned:
        return Outcome("unchanged", "none", planned.reason, TableFacts(schema=planned.schema))
    if before is None:
        return None
    if planned.streams and not context.just_planned:
        # New files may have arrived since the plan was made.
        return None
    if not context.just_planned:
        now = load_table(spark, planned.identifier)
        if now is None or now.log_end != before.log_end:
            return None
    if not before.registered:
        return None
    # The table may be newer than in the run's first plan; its readers use this version.
    context.versions.wrote(before)
    outcome = _unchanged(spark, planned.kind, before, planned.reason)
    if planned.partitions is None:
        return outcome
    return replace(outcome, partitions=PartitionsResult(unchanged=planned.partitions.unchanged))


def leave_unchanged(
    session: "SparkSession",
    table: Table,
    base: TableState | None,
    decision: TableDecision,
    context: UpdateContext,
    *,
    is_full_refresh: bool,
) -> Outcome | None:
    """Skip a table if its last refresh read the same data; else record why it is refreshed.

    Args:
        base: The table at the start of the transaction.
        decision: Create, wipe or alter.
        context: The update, in which the query was analysed.
        is_full_refresh: True when its rows are wiped first.

    Returns:
        None when the table must be refreshed.
    """
    if base is None or table.kind not in DECIDED:
        return None
    planned = context.plans.planned(table.identifier)
    flow = context.plan.graph.flow(table.identifier)
    if is_full_refresh or planned.reset_blocked:
        if planned.action == "none":
            context.plans.refreshes(table.identifier, "a full refresh was requested")
        return None
    now = context.queries.dependencies(flow)
    if now is None:
        verdict = Verdict(False, "this session cannot tell what its rows depend on")
    else:
        verdict = judge(
            last_write(session, base, context.plan.pipeline),
            now,
            changes=(planned.changes or ("its layout",)) if decision.alter else (),
            force=context.force,
        )
    if not verdict.unchanged:
        context.plans.refreshes(table.identifier, verdict.reason)
        return None
    context.versions.wrote(base)
    return _unchanged(session, table.kind, base, verdict.reason)


def leave_to_later(
    spark: "SparkSession", planned: DatasetPlan, context: UpdateContext
) -> Outcome | None:
    """Skip a table if another run has refreshed it from later versions of its inputs.

    Args:
        planned: The table's plan, made before the other run.
        context: The update, which holds the table's lease.

    Returns:
        None when the table must be planned again and refreshed.

    Raises:
        PipelineError: The query can no longer be analysed over the versions that this run reads.
    """
    dataset = context.plan.graph[planned.identifier]
    if not isinstance(dataset, Table) or dataset.kind not in DECIDED or planned.streams:
        return None
    if dataset.has_partitions:
        return None  # another run may have refreshed other partitions: planning again decides
    base = load_table(spark, planned.identifier)
    if context.force or planned.action == "full_refresh" or base is None or not base.registered:
        return None
    flow = context.plan.graph.flow(planned.identifier)
    session = flow_session(spark, flow)
    with active(session), explained(planned.name):
        context.queries.rows(session, flow, as_planned=False)
        now = context.queries.dependencies(flow)
        verdict = judge_overtaken(last_write(session, base, context.plan.pipeline), now)
        if verdict is None:
            return None
        context.versions.wrote(base)
        return _unchanged(session, dataset.kind, base, verdict.reason)


def _unchanged(spark: "SparkSession", kind: str, state: TableState, reason: str) -> Outcome:
    facts = TableFacts.of(state, last_data_version(spark, state))
    metrics = merge_metrics() if kind == "upsert" else {}
    return Outcome("unchanged", "none", reason, facts, version=state.version, metrics=metrics)
