"""Facts about a table after a commit, for reports."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.log.data_versions import last_data_version
from delta_pipelines.delta.log.loading import load_counted, load_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import TableFacts
from delta_pipelines.model.table_state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_facts(
    spark: "SparkSession",
    identifier: Identifier,
    entry: CatalogEntry | None = None,
) -> tuple[TableState, TableFacts]:
    """Load a table and describe it.

    Args:
        entry: The table's catalog entry; None to look it up.

    Raises:
        DatasetError: The table was dropped in the meantime.
    """
    state = load_table(spark, identifier, entry)
    if state is None:
        raise _dropped(identifier)
    return state, TableFacts.of(state, last_data_version(spark, state))


def counted_facts(
    spark: "SparkSession", identifier: Identifier
) -> tuple[TableState, TableFacts, int | None]:
    """Load a table, describe it and count its rows, with one read of its log.

    Raises:
        DatasetError: The table was dropped in the meantime.
    """
    counted = load_counted(spark, identifier)
    if counted is None:
        raise _dropped(identifier)
    state, rows = counted
    return state, TableFacts.of(state, last_data_version(spark, state)), rows


def _dropped(identifier: Identifier) -> DatasetError:
    return DatasetError(
        "the table was dropped right after it was written.", dataset=str(identifier)
    )
