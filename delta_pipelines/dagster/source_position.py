"""Where a source is: its newest commit, or the data version that Dagster last heard of."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import dagster as dg

from delta_pipelines.delta.log_files import LogPosition, local_table, newest_commit, rows_moved
from delta_pipelines.identifiers import Identifier
from delta_pipelines.session_config import warehouse_location

DATA_VERSION_TAG = "dagster/data_version"


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
    recorded = _last_record(instance, key)
    uri = recorded.metadata.get("dagster/uri") if recorded else None
    places = [str(uri.value)] if uri is not None else []
    if warehouse is not None and identifier.in_session_catalog:
        folder = "" if identifier.schema == "default" else f"/{identifier.schema}.db"
        places.append(f"{warehouse_location(warehouse)}{folder}/{identifier.name}")
    for place in places:
        table = local_table(place)
        newest = newest_commit(table) if table else None
        if newest is not None:
            return SourceSight(SourcePosition(log=newest), table)
    version = (recorded.tags or {}).get(DATA_VERSION_TAG) if recorded else None
    return SourceSight(SourcePosition(data_version=version) if version else None)


def _last_record(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> dg.AssetObservation | dg.AssetMaterialization | None:
    records = (
        *instance.fetch_observations(key, limit=1).records,
        *instance.fetch_materializations(key, limit=1).records,
    )
    if not records:
        return None
    entry = max(records, key=lambda record: record.storage_id).event_log_entry
    return entry.asset_observation or entry.asset_materialization
