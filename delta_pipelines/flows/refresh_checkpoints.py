"""Decide from which checkpoints a refresh reads its streams."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.delta.write.transaction import Transaction
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.checkpoint_checks import check_not_behind, check_sources
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.checkpoints import (
    Checkpoint,
    StreamSource,
    checkpoints_of,
    checkpoints_property,
    next_checkpoints,
    replaced_property,
)
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.schema.remedies import outdated_reason
from delta_pipelines.planning.streams.restore_detection import check_not_restored
from delta_pipelines.update.context import UpdateContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RefreshCheckpoints:
    """The checkpoints of a refresh.

    Args:
        tables: Flow -> the tables that its streams read, as they are now.
        checkpoints: Flow -> its checkpoint.
        properties: The table properties that name them.
    """

    tables: Mapping[str, Mapping[Identifier, TableState]]
    checkpoints: dict[str, Checkpoint]
    properties: Mapping[str, str]


def refresh_checkpoints(
    spark: "SparkSession",
    table: Table,
    planned: DatasetPlan,
    context: UpdateContext,
    transaction: Transaction,
    *,
    wipes: bool,
) -> RefreshCheckpoints:
    """Decide which checkpoints go on and which ones are new.

    Args:
        planned: Its plan.
        wipes: True for a full refresh: every checkpoint is new.

    Raises:
        DatasetError: The table or a source no longer fits a checkpoint; says what to do.
    """
    base, flows = transaction.base, context.plan.graph.flows_of(table.identifier)
    # A wipe also removes checkpoints of flows that are no longer declared: their rows go too.
    current = checkpoints_of(base.properties) if base and not wipes else {}
    tables = {flow.key: context.queries.stream_tables(spark, flow) for flow in flows}
    sources = {
        flow: {str(i.plain): StreamSource.of(state) for i, state in read.items()}
        for flow, read in tables.items()
    }
    restarted: set[str] = set()
    if table.identifier not in context.plans.defined:
        reset = context.plan.reset_checkpoints
        restarted = {flow.key for flow in flows if flow.name.lower() in reset}
    going_on = [f for f in flows if f.key in current and f.key not in restarted]
    check_not_restored(spark, table, going_on, base)
    for flow in going_on:
        had, has = current[flow.key], base.properties if base else {}
        problems = had.outdated(sources[flow.key])
        if problems:
            raise DatasetError(outdated_reason(table, flow, has, problems), dataset=table.name)
        if base:
            path = had.path(context.plan.storage, table.identifier, flow.key)
            check_not_behind(spark, table, flow, transaction, path)
            now = tables[flow.key]
            check_sources(spark, context.plan.graph, table, flow, base, now, path)
    folders = planned.folders
    checkpoints = next_checkpoints(
        current,
        {flow: {**read, **folders.get(flow, {})} for flow, read in sources.items()},
        restarted=tuple(restarted),
        run=context.run_id,
        # Columns found by an earlier attempt are newer than those of the plan.
        columns={} if table.identifier in context.plans.defined else planned.given,
    )
    properties = {
        **checkpoints_property(checkpoints),
        **replaced_property(base, checkpoints, int(time.time() * 1000)),
    }
    return RefreshCheckpoints(tables, checkpoints, properties)
