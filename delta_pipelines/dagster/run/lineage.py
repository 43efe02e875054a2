"""Column lineage as Dagster shows it: the columns of upstream assets."""

from collections.abc import Callable, Sequence

import dagster as dg

from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.query.column_lineage import ColumnLineage

COLUMN_LINEAGE = "dagster/column_lineage"


def table_lineage(
    lineage: ColumnLineage, columns: Sequence[str], key_of: Callable[[Identifier], dg.AssetKey]
) -> dg.TableColumnLineage:
    """Tell which columns of which assets a table's columns are computed from.

    Args:
        lineage: As planned.
        columns: The table's columns; those that its query no longer gives are computed of nothing.
        key_of: The asset key of a dataset.
    """
    folded = {column.lower(): origins for column, origins in lineage.items()}
    return dg.TableColumnLineage(
        deps_by_column={
            column: [
                dg.TableColumnDep(asset_key=key_of(origin.identifier), column_name=origin.column)
                for origin in folded.get(column.lower(), ())
            ]
            for column in columns
        }
    )
