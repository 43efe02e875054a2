"""What an asset's newest materialization tells of rows that a run has left as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import Evaluation, read_evaluations
from delta_pipelines.dagster.run.metadata import COLUMN_LINEAGE, data_version
from delta_pipelines.model.results import DatasetResult

ROW_COUNT = "dagster/row_count"
DATA_VERSION_TAG = "dagster/data_version"


@dataclass(frozen=True)
class Standing:
    """What stands, and is to be repeated: Dagster shows what the newest materialization has.

    Args:
        lineage: The columns' origins, whatever the rows are.
        row_count: Rows of the table; None when they are others by now, or were not counted.
        evaluations: Of expectations by name, of the rows that are in the table.
    """

    lineage: dg.TableColumnLineage | None = None
    row_count: int | None = None
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)


def is_asked(result: DatasetResult, *, checks: bool, lineage: bool) -> bool:
    """True when what stands is worth a look-up. Pure.

    Args:
        result: What a run did with the dataset.
        checks: True when a selected check has no evaluation of this run.
        lineage: True when the plan knows the columns' origins.
    """
    if not result.succeeded or result.action in ("create", "full_refresh"):
        return False
    unchanged = result.status == "unchanged"
    counted = result.kind in ("materialized_view", "upsert")
    return checks or (unchanged and (not lineage or (counted and result.rows is None)))


def look_up(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    result: DatasetResult,
    conditions: Mapping[str, str],
) -> Standing:
    """Look at an asset's newest materialization, once.

    Args:
        instance: Where materializations are kept.
        key: The asset.
        result: What this run did with it.
        conditions: Name -> condition of its expectations, as they are told.
    """
    latest = instance.get_latest_materialization_event(key)
    materialization = latest.asset_materialization if latest is not None else None
    return standing_of(materialization, result, conditions) if materialization else Standing()


def standing_of(
    materialization: dg.AssetMaterialization, result: DatasetResult, conditions: Mapping[str, str]
) -> Standing:
    """Decide what of a materialization still holds after this run. Pure.

    Counts hold while the table has the rows that they were made of, which its data version tells: a
    run outside Dagster may have written since. A stream only adds rows, so of an append flow that
    found nothing new its last batch stands, whatever the table's other flows have added.

    Args:
        materialization: The newest one before this run's.
        result: What this run did with the dataset.
        conditions: Name -> condition of its expectations, as they are told.
    """
    metadata = materialization.metadata
    entry = metadata.get(COLUMN_LINEAGE)
    lineage = (
        entry.column_lineage if isinstance(entry, dg.TableColumnLineageMetadataValue) else None
    )
    before = (materialization.tags or {}).get(DATA_VERSION_TAG, "")
    now = data_version(result)
    if now is None:
        return Standing(lineage)
    same_rows = before == now.value
    same_table = before.partition(":")[0] == now.value.partition(":")[0]  # the table's id
    counted = metadata.get(ROW_COUNT)
    rows = counted.value if counted is not None and same_rows else None
    stands = same_rows or (result.kind == "streaming_table" and same_table)
    return Standing(
        lineage,
        rows if isinstance(rows, int) else None,
        read_evaluations(metadata, conditions) if stands else {},
    )
