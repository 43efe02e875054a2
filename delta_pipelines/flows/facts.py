"""What a table is after a commit, for reports."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.history import last_data_version
from delta_pipelines.delta.loading import load_counted, load_table
from delta_pipelines.delta.snapshots import CatalogEntry
from delta_pipelines.delta.table import TableState
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.results import TableFacts
from delta_pipelines.identifiers import Identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_facts(
    spark: "SparkSession",
    identifier: Identifier,
    data_version: int | None = None,
    entry: CatalogEntry | None = None,
) -> tuple[TableState, TableFacts]:
    """Load a table and describe it.

    Args:
        spark: The session.
        identifier: The table.
        data_version: Last version that changed rows; None to look it up, since a commit of ours
            may have changed only properties.
        entry: What the catalog has for the table; None to ask it.

    Raises:
        DatasetError: Somebody dropped it meanwhile.
    """
    state = load_table(spark, identifier, entry)
    if state is None:
        raise _dropped(identifier)
    return state, _facts(spark, state, data_version)


def counted_facts(
    spark: "SparkSession", identifier: Identifier, data_version: int | None = None
) -> tuple[TableState, TableFacts, int | None]:
    """Load a table, describe it and count its rows, all by one look at its log.

    Args:
        spark: The session.
        identifier: The table.
        data_version: As of `table_facts`.

    Raises:
        DatasetError: Somebody dropped it meanwhile.
    """
    counted = load_counted(spark, identifier)
    if counted is None:
        raise _dropped(identifier)
    state, rows = counted
    return state, _facts(spark, state, data_version), rows


def _dropped(identifier: Identifier) -> DatasetError:
    return DatasetError(
        "the table was dropped right after it was written.", dataset=str(identifier)
    )


def _facts(spark: "SparkSession", state: TableState, data_version: int | None) -> TableFacts:
    if data_version is None:
        data_version = last_data_version(spark, state)
    return TableFacts.of(state, data_version)
