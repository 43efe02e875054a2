"""Files next to Spark's offsets: the commits of sources and target that a checkpoint knows.

Spark's offsets contain a table's id and a version. A source that was replaced by an older copy
and written to again has both, but other rows. A target that was replaced lacks rows that the
offsets count as written.
"""

import json
from collections.abc import Collection, Mapping

from pyspark.sql import SparkSession

from delta_pipelines.delta.log.data_versions import recorded_entry
from delta_pipelines.delta.storage.folders import read_text_if_there, replace_text
from delta_pipelines.delta.stream.checkpoint_progress import read_planned
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    stored_json,
    stored_mapping,
    stored_object,
)
from delta_pipelines.model.table_state import TableState, TableVersion

FILE = "source_commits.json"
TARGET_FILE = "target_commit.json"

SourceCommits = Mapping[str, TableVersion]
"""Delta table id -> the last commit of that table that a checkpoint has read."""


def to_text(commits: SourceCommits) -> str:
    """Return the text of the file. Pure."""
    read = {
        table.table_id: {"version": table.version, "commit": table.commit}
        for table in commits.values()
    }
    return json.dumps(read, sort_keys=True)


def from_text(text: str) -> SourceCommits | None:
    """Parse the text of `to_text`; None if it is malformed. Pure.

    Example:
        >>> from_text('{"t": {"version": 3, "commit": "c"}}')
        {'t': TableVersion(table_id='t', version=3, commit='c')}
    """
    try:
        listed = stored_mapping(stored_json(text), stored_object)
        read = {i: TableVersion.parse({"table_id": i, **row}) for i, row in listed.items()}
    except MalformedValueError:
        return None
    return read


def read_source_commits(spark: SparkSession, checkpoint: str) -> SourceCommits | None:
    """Return the last commits that a checkpoint has read; None if not recorded."""
    text = read_text_if_there(spark, f"{checkpoint}/{FILE}")
    return None if text is None else from_text(text)


def record_source_commits(
    spark: SparkSession, checkpoint: str, batch: int, tables: Collection[TableState]
) -> None:
    """Record the last commits that a micro-batch reads, before its rows are written.

    Args:
        spark: A classic session.
        batch: The planned micro-batch.
        tables: The source tables, as they were before the stream was started.
    """
    if not tables:
        return
    progress = read_planned(spark, checkpoint, batch)
    read: dict[str, TableVersion] = {}
    for state in tables:
        version = progress.read_version(state.table_id)
        entry = None if version is None else recorded_entry(spark, state.log_end, version)
        if entry is not None:
            read[state.table_id] = TableVersion(state.table_id, entry.version, entry.commit)
    replace_text(spark, f"{checkpoint}/{FILE}", to_text(read))


def read_target_commit(spark: SparkSession, checkpoint: str) -> TableVersion | None:
    """Return the target's commit after the last run that wrote micro-batches, or None."""
    text = read_text_if_there(spark, f"{checkpoint}/{TARGET_FILE}")
    commits = None if text is None else from_text(text)
    return next(iter(commits.values()), None) if commits else None


def record_target_commit(spark: SparkSession, checkpoint: str, target: TableState) -> None:
    """Record the target's commit at the end of a run that wrote micro-batches.

    Args:
        spark: A classic session.
    """
    entry = recorded_entry(spark, target.log_end, target.version)
    if entry is not None:
        written = TableVersion(target.table_id, entry.version, entry.commit)
        replace_text(spark, f"{checkpoint}/{TARGET_FILE}", to_text({written.table_id: written}))
