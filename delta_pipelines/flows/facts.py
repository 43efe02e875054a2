"""What a table is after a commit, for reports."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.history import last_data_version
from delta_pipelines.delta.loading import load_table
from delta_pipelines.delta.table import TableState
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.results import TableFacts
from delta_pipelines.identifiers import Identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_facts(
    spark: "SparkSession", identifier: Identifier, data_version: int | None = None
) -> tuple[TableState, TableFacts]:
    """Load a table and describe it.

    Args:
        spark: The session.
        identifier: The table.
        data_version: Last version that changed rows; None to look it up, since a commit of ours
            may have changed only properties.

    Raises:
        DatasetError: Somebody dropped it meanwhile.
    """
    state = load_table(spark, identifier)
    if state is None:
        raise DatasetError(
            "the table was dropped right after it was written.", dataset=str(identifier)
        )
    if data_version is None:
        data_version = last_data_version(spark, state)
    return state, TableFacts.of(state, data_version)
