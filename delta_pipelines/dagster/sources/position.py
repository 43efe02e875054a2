"""Where a source is: its newest commit, or the data version that Dagster last heard of."""

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
"""A tick reads no further back. What it misses then is told late, not lost: the cursor stays."""


@dataclass(frozen=True)
class SourcePosition:
    """What is known of a source's rows without a JVM.

    Args:
        log: Its newest commit, when its folder can be read from here.
        data_version: Else the data version of its last observation or materialization.
    """

    log: LogPosition | None = None
    data_version: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values, for a sensor's cursor."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "SourcePosition":
        """The position that `to_dict` gave."""
        log, data_version = values.get("log"), values.get("data_version")
        return cls(
            LogPosition(**log) if isinstance(log, dict) else None,
            data_version if isinstance(data_version, str) else None,
        )


@dataclass(frozen=True)
class SourceSight:
    """A look at a source.

    Args:
        position: Where it is; None when nothing is known of it.
        table: Its folder, when it can be read from here.
    """

    position: SourcePosition | None
    table: Path | None = None

    def moved(self, since: SourcePosition | None) -> bool:
        """True when its rows may be others than at an earlier look."""
        if self.position is None:
            return False
        if since is None or since.log is None or self.position.log is None or self.table is None:
            return self.position != since
        return rows_moved(self.table, since.log, self.position.log)


def look_at(
    instance: dg.DagsterInstance, key: dg.AssetKey, identifier: Identifier, warehouse: str | None
) -> SourceSight:
    """Look at a source: first at its log's files, else at what Dagster recorded of it.

    Args:
        instance: Where observations and materializations are recorded, with the table's place.
        key: The source's asset key.
        identifier: Its table.
        warehouse: Folder in which tables lie that nobody gave another place.
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
    """The newest place and the newest data version that any record of an asset tells.

    Not those of its newest record: an observation by a maintenance run, or one of a user's own,
    tells neither, and would hide the refresh before it.
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
    """Records of one kind, read from Dagster's storage only as far as they are asked for."""
    cursor: str | None = None
    while True:
        found = page(cursor)
        yield from found.records
        if not found.has_more:
            return
        cursor = found.cursor
