"""A table's last commits, for the terminal."""

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.table import Table

from delta_pipelines.delta.log.loading import history_entry, load_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.stored_values import json_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = {
    "numOutputRows": "written",
    "numTargetRowsInserted": "inserted",
    "numTargetRowsUpdated": "updated",
    "numTargetRowsDeleted": "deleted",
}
"""Delta's metrics of a commit that are shown, with the word for each."""


def history_table(spark: "SparkSession", identifier: Identifier, limit: int) -> Table:
    """Show one line per commit, newest first, at most `limit` lines.

    The action (create, refresh, full refresh) and the run are of this framework's commits; those of
    other writers have none.

    Raises:
        DatasetError: The table does not exist.
    """
    state = load_table(spark, identifier)
    if state is None:
        raise DatasetError("the table does not exist.", dataset=str(identifier))
    table = Table("version", "when (UTC)", "action", "operation", "rows", "run", box=None)
    for version in range(state.version, max(-1, state.version - limit), -1):
        entry = history_entry(spark, state.location, version)
        if entry is None:
            break
        when = datetime.fromtimestamp(entry.timestamp / 1000, tz=timezone.utc)
        metrics = entry.metrics
        counts = ", ".join(f"{metrics[k]:,} {word}" for k, word in _SHOWN.items() if k in metrics)
        recorded = json_object(entry.user_metadata) or {}
        action = str(recorded.get("action", "")).replace("_", " ")
        run = str(recorded.get("run_id", ""))
        time = f"{when:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(version), time, action, entry.operation, counts, run)
    return table
