"""Tries a definition against a table without writing: what Delta would refuse is known before."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.definition import TableDefinition, check_definition
from delta_pipelines.delta.jvm import Jvm
from delta_pipelines.delta.sessions import active
from delta_pipelines.delta.signatures import unavailable
from delta_pipelines.delta.snapshots import CatalogEntry, open_log
from delta_pipelines.delta.spark_errors import explained
from delta_pipelines.delta.staging import Staging
from delta_pipelines.identifiers import Identifier


def rehearse(
    spark: SparkSession,
    identifier: Identifier,
    definition: TableDefinition,
    dataset: str,
    entry: CatalogEntry | None = None,
) -> None:
    """Let Delta check a definition in a transaction that is never committed.

    Where there is no one-commit transaction, or the schema does not exist yet, only the checks
    that need no table are made.

    Args:
        spark: Any session.
        identifier: The table, existing or not.
        definition: What it is to be.
        dataset: Declared name, for messages.
        entry: What the catalog has under that name; None to ask it.

    Raises:
        DatasetError: No Delta table can be like that: an unknown `delta.` property, a column
            without a type, and the like.
        SchemaChangeError: This table cannot change like that.
    """
    check_definition(definition, dataset)
    if unavailable(spark, identifier):
        return
    with active(spark), explained(dataset):
        opened = open_log(spark, identifier, entry=entry)
        if opened is not None:
            Staging(Jvm(spark), opened).define(definition, dataset)
