"""Facts from the last materialization that still hold when a run changed nothing."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import Evaluation, read_evaluations
from delta_pipelines.dagster.run.metadata import COLUMN_LINEAGE, data_version
from delta_pipelines.dagster.run.partition_events import DATA_VERSION_TAG, TABLE_DATA_VERSION
from delta_pipelines.model.results import DatasetResult

ROW_COUNT = "dagster/row_count"
Newest: TypeAlias = "Mapping[dg.AssetKey, dg.EventLogEntry | None]"
"""Asset -> its newest materialization."""
_AT_ONCE = 500
"""Assets in one query; databases limit the number of values in a list."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """Facts that still hold; repeated because Dagster shows only the newest materialization.

    Args:
        lineage: The column lineage, which does not depend on rows.
        row_count: Rows of the table; None if the rows have changed or were not counted.
        evaluations: Evaluations of the table's current rows, by expectation name.
    """

    lineage: dg.TableColumnLineage | None = None
    row_count: int | None = None
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)


def is_asked(result: DatasetResult, *, checks: bool, lineage: bool) -> bool:
    """True if the last materialization must be looked up. Pure.

    Args:
        checks: True if this run has not evaluated every selected check.
        lineage: True if the plan has the column lineage.
    """
    if not result.succeeded or result.action in ("create", "full_refresh"):
        return False
    unchanged = result.status == "unchanged"
    counted = result.kind in ("materialized_view", "upsert")
    return checks or (unchanged and (not lineage or (counted and result.rows is None)))


def newest_materializations(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> Newest:
    """Look up the newest materializations of many assets, which is faster than one by one."""
    newest: dict[dg.AssetKey, dg.EventLogEntry | None] = {}
    try:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            for record in instance.get_asset_records(part):
                newest[record.asset_entry.asset_key] = record.asset_entry.last_materialization
    except Exception as error:  # noqa: BLE001 - metadata must not fail the run
        log.debug("The newest materializations are looked up one by one: %s", type(error).__name__)
    return newest


def look_up(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    result: DatasetResult,
    conditions: Mapping[str, str],
    newest: "Newest | None" = None,
) -> Standing:
    """Look up an asset's newest materialization.

    Args:
        key: The asset.
        conditions: Name -> redacted condition of its expectations.
        newest: Newest materializations that are known.
    """
    if newest is not None and key in newest:
        latest = newest[key]
    else:
        latest = instance.get_latest_materialization_event(key)
    materialization = latest.asset_materialization if latest is not None else None
    return standing_of(materialization, result, conditions) if materialization else Standing()


def standing_of(
    materialization: dg.AssetMaterialization, result: DatasetResult, conditions: Mapping[str, str]
) -> Standing:
    """Find the facts of a materialization that still hold after this run. Pure.

    Counts hold while the table has the same rows, which its data version shows: a run outside
    Dagster may have written since. A stream only adds rows. So if an append flow found nothing new,
    the evaluation of its last batch holds, even if other flows have added rows.

    Args:
        materialization: The newest materialization before this run.
        conditions: Name -> redacted condition of its expectations.
    """
    metadata = materialization.metadata
    entry = metadata.get(COLUMN_LINEAGE)
    lineage = (
        entry.column_lineage if isinstance(entry, dg.TableColumnLineageMetadataValue) else None
    )
    before = (materialization.tags or {}).get(DATA_VERSION_TAG, "")
    of_table = metadata.get(TABLE_DATA_VERSION)
    if of_table is not None and isinstance(of_table.value, str):
        before = of_table.value
    now = data_version(result)
    if now is None:
        return Standing(lineage)
    same_rows = before == now.value
    same_table = before.partition(":")[0] == now.value.partition(":")[0]  # the table's id
    # The rows of a partition are not those of the table.
    counted = metadata.get(ROW_COUNT) if materialization.partition is None else None
    rows = counted.value if counted is not None and same_rows else None
    stands = same_rows or (result.kind == "streaming_table" and same_table)
    return Standing(
        lineage,
        rows if isinstance(rows, int) else None,
        read_evaluations(metadata, conditions) if stands else {},
    )
