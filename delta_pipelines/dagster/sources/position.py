"""The position of a source: its newest commit, or the last data version that Dagster recorded."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import dagster as dg

from delta_pipelines.delta.log.local_log import LogPosition, local_table, newest_commit, rows_moved
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.session.config import warehouse_location

DATA_VERSION_TAG = "dagster/data_version"
_PAGE = 20
_MOST_RECORDS = 1000
"""Maximum records that a tick reads. What it misses is noticed later, because the cursor stays."""


@dataclass(frozen=True)
class SourcePosition:
    """The state of a source's rows, as far as it is known without a JVM.

    Args:
        log: Its newest commit, if this process can read its folder.
        data_version: Otherwise the data version of its last observation or materialization.
    """

    log: LogPosition | None = None
    data_version: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values, for a sensor's cursor."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "SourcePosition":
        """Read a position from the values of `to_dict`."""
        log, data_version = values.get("log"), values.get("data_version")
        return cls(
            LogPosition(**log) if isinstance(log, dict) else None,
            data_version if isinstance(data_version, str) else None,
        )


@dataclass(frozen=True)
class SourceSight:
    """One observation of a source by the sensor.

    Args:
        position: Its position; None when unknown.
        table: Its folder, if this process can read it.
    """

    position: SourcePosition | None
    table: Path | None = None

    @property
    def is_recorded(self) -> bool:
        """True if the position is known only from Dagster's records."""
        return self.position is not None and self.position.log is None

    def moved(self, since: SourcePosition | None) -> bool:
        """True if its rows may have changed since an earlier position."""
        if self.position is None:
            return False
        if since is None or since.log is None or self.position.log is None or self.table is None:
            return self.position != since
        return rows_moved(self.table, since.log, self.position.log)


def look_at(
    instance: dg.DagsterInstance, key: dg.AssetKey, identifier: Identifier, warehouse: str | None
) -> SourceSight:
    """Find the position of a source: from the files of its log, else from Dagster's records.

    Args:
        instance: Has the records of observations and materializations, with the table's location.
        key: The source's asset key.
        identifier: Its table.
        warehouse: Default folder of tables without a location of their own.
    """
    uri, version = _newest_recorded(instance, key)
    locations = [uri] if uri is not None else []
    if warehouse is not None and identifier.in_session_catalog:
        folder = "" if identifier.schema == "default" else f"/{identifier.schema}.db"
        locations.append(f"{warehouse_location(warehouse)}{folder}/{identifier.name}")
    for location in locations:
        table = local_table(location)
        newest = newest_commit(table) if table else None
        if newest is not None:
            return SourceSight(SourcePosition(log=newest), table)
    return SourceSight(SourcePosition(data_version=version) if version else None)


def _newest_recorded(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> tuple[str | None, str | None]:
    """The newest location and the newest data version in the records of an asset.

    They may come from different records: an observation of a maintenance run or of a user has
    neither, and must not hide the refresh before it.
    """
    uri: str | None = None
    version: str | None = None
    records = heapq.merge(
        _newest_first(lambda cursor: instance.fetch_observations(key, _PAGE, cursor)),
        _newest_first(lambda cursor: instance.fetch_materializations(key, _PAGE, cursor)),
        key=lambda record: record.storage_id,
        reverse=True,
    )
    for record in islice(records, _MOST_RECORDS):
        entry = record.event_log_entry
        event = entry.asset_observation or entry.asset_materialization
        if event is not None:
            if uri is None and "dagster/uri" in event.metadata:
                uri = str(event.metadata["dagster/uri"].value)
            version = version or (event.tags or {}).get(DATA_VERSION_TAG)
        if uri is not None and version is not None:
            break
    return uri, version


def _newest_first(
    page: Callable[[str | None], "dg.EventRecordsResult"],
) -> Iterator["dg.EventLogRecord"]:
    """Yield records of one kind, newest first; reads further pages only when needed."""
    cursor: str | None = None
    while True:
        found = page(cursor)
        yield from found.records
        if not found.has_more:
            return
        cursor = found.cursor
