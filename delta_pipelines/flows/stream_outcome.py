"""The outcome of a streaming refresh."""

from delta_pipelines.graph.graph import Table
from delta_pipelines.model.merge_result import merge_metrics
from delta_pipelines.model.results import Outcome, TableFacts
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.streams.stream_planner import NOTHING_NEW
from delta_pipelines.update.stream_tally import StreamTally

ALL_LEFT_OUT = "its streams read new input, but no row of it belongs in the table"


def stream_outcome(
    table: Table, planned: DatasetPlan, tally: StreamTally, state: TableState, facts: TableFacts
) -> Outcome:
    """Sum up what the streams of a run did to a table.

    Args:
        planned: Its plan.
        tally: What was read and committed.
        facts: The same, for the result.
    """
    if tally.version is None:
        metrics = tally.metrics
        return Outcome(
            status="unchanged",
            action="none",
            reason=ALL_LEFT_OUT if tally.batches else NOTHING_NEW,
            facts=facts,
            version=state.version,
            metrics=metrics if table.declaration.upsert is None else merge_metrics(metrics),
            notes=tuple(tally.notes),
            expectations=tally.expectations,
        )
    planned = tally.planned or planned
    # Rows may have come since the plan found none.
    came = planned.action == "none"
    return Outcome(
        status="completed",
        action="refresh" if came else planned.action,
        reason=planned.how if came else planned.reason,
        facts=facts,
        version=tally.version,
        metrics={**tally.metrics, "numBatches": tally.batches},
        notes=tuple(tally.notes),
        merge=tally.merged,
        expectations=tally.expectations,
    )
