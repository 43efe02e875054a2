"""Load tables: latest state, a pinned version, row count and history."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.catalog.entries import CatalogEntry, catalog_entries, registered_location
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES, explain, explained, is_not_there
from delta_pipelines.delta.log.add_files import listed_files, logical_rows, read_entries
from delta_pipelines.delta.log.describe_detail import described_table
from delta_pipelines.delta.log.snapshots import OpenLog, open_log, state_of
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import HistoryEntry, TableState


def load_table(
    spark: SparkSession,
    identifier: Identifier,
    entry: CatalogEntry | None = None,
    *,
    is_new: bool = False,
) -> TableState | None:
    """Read a table's latest state; starts no Spark job if the JVM is reachable.

    Also finds a table whose run stopped after the first commit and before the table was registered
    in the catalog (`registered` is False then).

    Args:
        entry: From `known_entries`, just now.
        is_new: True if the table probably does not exist; this saves a failed lookup.

    Returns:
        None if the table does not exist.

    Raises:
        DatasetError: The name is a view or a table of another format, or a Delta table of another
            program is at its location.

    Example:
        >>> load_table(spark, Identifier(None, "aviation", "nowhere")) is None
        True
    """
    if unavailable(spark, identifier):
        return described_table(spark, identifier)
    with active(spark), explained(str(identifier)):
        opened = open_log(spark, identifier, entry=entry, is_new=is_new)
        return None if opened is None else state_of(Jvm(spark), identifier, opened)


def files_gone(
    spark: SparkSession, identifier: Identifier, entry: CatalogEntry | None = None
) -> str | None:
    """Return the location of a table in the catalog whose files `load_table` did not find.

    Returns:
        None if the catalog has no such table.
    """
    if unavailable(spark, identifier):
        return None
    with explained(str(identifier)):
        return registered_location(spark, identifier, entry)


def known_entries(
    spark: SparkSession, identifiers: Sequence[Identifier]
) -> dict[Identifier, CatalogEntry]:
    """Ask the catalog for many names at once, which is faster than one by one.

    Args:
        identifiers: Tables in existing schemas.

    Returns:
        The entries of the names that can be asked for at once.
    """
    asked = [table for table in identifiers if not unavailable(spark, table)]
    return catalog_entries(spark, asked) if asked else {}


def schema_exists(spark: SparkSession, identifier: Identifier) -> bool:
    """Say whether the schema of a table exists; True for another catalog, which is not asked."""
    if unavailable(spark, identifier):
        return True
    with explained(str(identifier)):
        catalog = Jvm(spark).session.sessionState().catalog()
        return bool(catalog.databaseExists(identifier.schema))


def read_pinned(spark: SparkSession, state: TableState) -> DataFrame:
    """Read exactly the version of a state, without later commits.

    The checksum of a small table lists its files. Delta's own reader would first compute the
    table's state: three Spark jobs, which take longer than reading the rows.

    Args:
        state: From `load_table`.

    Raises:
        DatasetError: The table was dropped or replaced, or the version's files are gone (transient:
            planning again helps); or Spark cannot read the table.

    Example:
        >>> read_pinned(spark, load_table(spark, identifier)).count()
        3
    """
    dataset = str(state.identifier)
    reader = spark.read.format("delta").option("versionAsOf", state.version)
    with active(spark):
        try:
            few = _few_files(spark, state)
            if few is not None:
                return few
            rows = reader.load(state.location)
            is_same = _is_pinned(rows, state)
        except SPARK_FAILURES as exc:
            error = explain(exc, dataset)
            if not is_not_there(exc):
                raise error from exc
            raise DatasetError(
                f"version {state.version} was replaced after planning and cannot be read any more: "
                f"run again to plan with the latest version ({error.message}).",
                dataset=dataset,
                transient=True,
            ) from exc
    if not is_same:
        raise DatasetError(
            f"version {state.version} of the table was replaced after planning: the table was "
            f"dropped and created again, or replaced by an older copy. Run again to plan with the "
            f"current table.",
            dataset=dataset,
            transient=True,
        )
    return rows


def _few_files(spark: SparkSession, state: TableState) -> DataFrame | None:
    """Read the rows of a small table from its listed files, as Delta does in a merge.

    Returns:
        None if the list is unknown, or if the table is so large that skipping files by their
        statistics may pay off, which only Delta's own reader does.
    """
    if state.files is None or (state.size_bytes or 0) > _SMALL_BYTES:
        return None
    if unavailable(spark, state.identifier) or '"void"' in state.schema.json():
        return None  # Delta's own reader leaves out columns without a type
    jvm = Jvm(spark)
    path = jvm.root.org.apache.hadoop.fs.Path(state.location)
    log = jvm.delta.DeltaLog.forTable(jvm.session, path)
    snapshot = log.update(False, jvm.none, jvm.none)  # the table may have been dropped since
    if snapshot.version() != state.version or not _is_same_commit(snapshot, state):
        return None
    files = listed_files(snapshot)
    if files is None:
        return None
    return jvm.frame(log.createDataFrame(snapshot, files, False, jvm.none))


_WHOLE = re.compile(r"-?[0-9]{1,18}")
_SMALL_BYTES = 64 * 1024 * 1024


def load_counted(
    spark: SparkSession, identifier: Identifier
) -> tuple[TableState, int | None] | None:
    """Read a table's latest state and its row count from statistics; starts no Spark job.

    Returns:
        None if the table does not exist; None as the count if only a job could count the rows: many
        files, or no statistics.

    Raises:
        DatasetError: As in `load_table`.
    """
    if unavailable(spark, identifier):
        state = described_table(spark, identifier)
        return None if state is None else (state, 0 if state.files == 0 else None)
    with active(spark), explained(str(identifier)):
        opened, jvm = open_log(spark, identifier), Jvm(spark)
        state = None if opened is None else state_of(jvm, identifier, opened)
        return None if opened is None or state is None else (state, _rows(jvm, opened, state))


def _rows(jvm: Jvm, opened: OpenLog, state: TableState) -> int | None:
    if state.files == 0:
        return 0
    files = listed_files(opened.snapshot)
    return None if files is None else logical_rows(read_entries(jvm, files))


def history_entry(spark: SparkSession, location: str, version: int) -> HistoryEntry | None:
    """Read the history entry of one commit, from its log file alone.

    Args:
        location: The table's folder (`TableState.location`).

    Returns:
        None if the commit's log file does not exist any more (Delta deletes them after 30 days).
    """
    jvm = Jvm(spark)
    with active(spark), explained(location):
        log = jvm.delta.DeltaLog.forTable(jvm.session, jvm.root.org.apache.hadoop.fs.Path(location))
        path = jvm.delta.util.FileNames.unsafeDeltaFile(log.logPath(), version)
        settings = log.newDeltaHadoopConf()
        if not path.getFileSystem(settings).exists(path):
            return None
        # Delta writes the description of a commit as the first line.
        line = str(log.store().read(path, settings).head())
        about = json.loads(line).get("commitInfo", {})
        commit = about.get("txnId")
        if not commit:
            size = path.getFileSystem(settings).getFileStatus(path).getLen()
            commit = f"{hashlib.sha256(line.encode()).hexdigest()[:32]}-{size}"
    return HistoryEntry(
        version=version,
        operation=about.get("operation", ""),
        metrics=whole_numbers(about.get("operationMetrics") or {}),
        user_metadata=about.get("userMetadata"),
        timestamp=int(about.get("timestamp", 0)),
        parameters=_given(about.get("operationParameters")),
        commit=str(commit),
    )


def _given(parameters: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (parameters or {}).items() if value is not None}


def whole_numbers(metrics: Mapping[str, str]) -> dict[str, int]:
    """Return the metrics that are integers; Delta's log stores all values as text."""
    return {name: int(text) for name, text in metrics.items() if _WHOLE.fullmatch(str(text))}


def _is_pinned(rows: DataFrame, state: TableState) -> bool:
    """Say whether rows that were read at a version belong to a state."""
    # The relation is not always on top: Spark pads CHAR columns in a projection over it.
    leaf = rows._jdf.queryExecution().analyzed().collectLeaves().head()
    return _is_same_commit(leaf.relation().location().snapshotAtAnalysis(), state)


def _is_same_commit(snapshot: JavaObject, state: TableState) -> bool:
    """Say whether a snapshot of a state's version has the same table and commit."""
    is_same_table = snapshot.metadata().id() == state.table_id
    return is_same_table and state.written_ms in (None, int(snapshot.timestamp()))
