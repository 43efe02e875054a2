"""Load tables: their latest state, one pinned version, their row count and history."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.catalog.entries import CatalogEntry, catalog_entries, registered_location
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, is_classic
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
    """Read a table's latest state; with a JVM in reach this starts no Spark job.

    A table whose first commit landed but whose run died before it was entered in the catalog is
    found too (`registered` is False then).

    Args:
        spark: Any session.
        identifier: The table.
        entry: From `known_entries`, of just now.
        is_new: True when most likely there is no such table, which is told sooner so.

    Returns:
        None when there is no such table.

    Raises:
        DatasetError: When the name is a view or a table that is not Delta, or a stranger's Delta
            log is in the way.

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
    """Where the files of a table should be that the catalog has, and `load_table` did not find.

    Args:
        spark: Any session.
        identifier: The table.
        entry: From `known_entries`, of just now.

    Returns:
        None when the catalog has no such table.
    """
    if unavailable(spark, identifier):
        return None
    with explained(str(identifier)):
        return registered_location(spark, identifier, entry)


def known_entries(
    spark: SparkSession, identifiers: Sequence[Identifier]
) -> dict[Identifier, CatalogEntry]:
    """What the catalog has under many names, which it tells faster at once than one by one.

    Args:
        spark: Any session.
        identifiers: Tables whose schemas exist.

    Returns:
        An entry for each that can be asked for so.
    """
    asked = [one for one in identifiers if not unavailable(spark, one)]
    return catalog_entries(spark, asked) if asked else {}


def schema_exists(spark: SparkSession, identifier: Identifier) -> bool:
    """False when a table cannot be there because its schema is not; asks only the session catalog.

    Args:
        spark: Any session.
        identifier: The table.
    """
    if unavailable(spark, identifier):
        return True
    with explained(str(identifier)):
        catalog = Jvm(spark).session.sessionState().catalog()
        return bool(catalog.databaseExists(identifier.schema))


def read_pinned(spark: SparkSession, state: TableState) -> DataFrame:
    """Read exactly the version of a state, whatever has been committed since.

    A small table's files are known from its checksum, where Delta's own reader would first compute
    the table's state anew: three Spark jobs, and more time than the rows themselves take.

    Args:
        spark: Any session.
        state: What `load_table` answered.

    Raises:
        DatasetError: When the table was dropped or replaced since, or the version's files are gone
            (transient: planning anew helps); or when Spark cannot read it, as Spark says it.

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
            is_same = not is_classic(spark) or _is_pinned(rows, state)
        except SPARK_FAILURES as exc:
            error = explain(exc, dataset)
            if not is_not_there(exc):
                raise error from exc
            raise DatasetError(
                f"version {state.version} was replaced since the plan and cannot be read any more: "
                f"run again to plan with the latest version ({error.message}).",
                dataset=dataset,
                transient=True,
            ) from exc
    if not is_same:
        raise DatasetError(
            f"version {state.version} of the table was replaced since the plan: the table was "
            f"dropped and created again, or put back from a copy. Run again to plan with the "
            f"table as it is now.",
            dataset=dataset,
            transient=True,
        )
    return rows


def _few_files(spark: SparkSession, state: TableState) -> DataFrame | None:
    """The rows of a small table, read by its listed files, as Delta reads what it merges.

    Returns:
        None when the list is not known, or the table is so large that skipping files by their
        statistics may pay, which only Delta's own reader does.
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
    """Read a table's latest state, and count its rows from Delta's statistics; starts no Spark job.

    Args:
        spark: Any session.
        identifier: The table.

    Returns:
        None when there is no such table; as count None when only a job could tell: many files, or
        no statistics.

    Raises:
        DatasetError: As of `load_table`.
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
    """Read what one commit says about itself, from its own log file alone.

    Args:
        spark: Any session; a Connect session asks `DESCRIBE HISTORY`, which starts a job.
        location: The table's folder (`TableState.location`).
        version: The commit.

    Returns:
        None when the commit's log file is gone (Delta cleans them up after 30 days).
    """
    if not is_classic(spark):
        return _described_entry(spark, location, version)
    jvm = Jvm(spark)
    with active(spark), explained(location):
        log = jvm.delta.DeltaLog.forTable(jvm.session, jvm.root.org.apache.hadoop.fs.Path(location))
        path = jvm.delta.util.FileNames.unsafeDeltaFile(log.logPath(), version)
        settings = log.newDeltaHadoopConf()
        if not path.getFileSystem(settings).exists(path):
            return None
        # Delta writes the commit's own description as the first line.
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


def _described_entry(spark: SparkSession, location: str, version: int) -> HistoryEntry | None:
    history = spark.sql(f"DESCRIBE HISTORY delta.`{location}`")
    found = history.where(f"version = {int(version)}").first()
    if found is None:
        return None
    return HistoryEntry(
        version=version,
        operation=found["operation"],
        metrics=whole_numbers(found["operationMetrics"] or {}),
        user_metadata=found["userMetadata"],
        timestamp=int(found["timestamp"].timestamp() * 1000),
        parameters=_given(found["operationParameters"]),
        # DESCRIBE HISTORY does not show the transaction's id.
        commit=f"{found['timestamp'].timestamp():.3f}",
    )


def _given(parameters: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (parameters or {}).items() if value is not None}


def whole_numbers(metrics: Mapping[str, str]) -> dict[str, int]:
    """The metrics that are whole numbers; Delta's log keeps all values as text."""
    return {name: int(text) for name, text in metrics.items() if _WHOLE.fullmatch(str(text))}


def _is_pinned(rows: DataFrame, state: TableState) -> bool:
    """True when rows that were read at a version are those of a state."""
    # The relation is not always on top: Spark pads CHAR columns in a projection over it.
    leaf = rows._jdf.queryExecution().analyzed().collectLeaves().head()
    return _is_same_commit(leaf.relation().location().snapshotAtAnalysis(), state)


def _is_same_commit(snapshot: JavaObject, state: TableState) -> bool:
    """True when a snapshot of a state's version is of the same table, and of the same commit."""
    is_same_table = snapshot.metadata().id() == state.table_id
    return is_same_table and state.written_ms in (None, int(snapshot.timestamp()))
