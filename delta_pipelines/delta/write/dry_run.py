"""Check a definition against a table without writing, to find out what Delta would reject."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.entries import CatalogEntry, location_in_new_schema
from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.signatures import check_signatures, unavailable
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.log.snapshots import OpenLog, open_folder, open_log
from delta_pipelines.delta.write.optimistic_transaction import Staging
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition, check_definition

_NOWHERE = "delta_pipelines_rehearsal"


def rehearse(
    spark: SparkSession,
    identifier: Identifier,
    definition: TableDefinition,
    dataset: str,
    entry: CatalogEntry | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Let Delta check a definition in a transaction that is never committed.

    A new table is checked as an empty table: neither its schema nor its folder has to exist, and
    nothing is created. Only the checks that need no table are made with an unknown Delta
    version, and for an existing table of another catalog.

    Args:
        identifier: The table, existing or not.
        dataset: Declared name, for messages.
        entry: The catalog's entry; None to ask for it.
        is_new: True if the table does not exist.

    Raises:
        DatasetError: A Delta table cannot have this definition: an unknown `delta.` property, a
            column without a type, and the like.
        SchemaChangeError: This table cannot be changed to the definition.
    """
    check_definition(definition, dataset)
    if check_signatures(spark):
        return
    with active(spark), explained(dataset):
        opened = _opened(spark, identifier, entry, is_new=is_new)
        if opened is not None:
            Staging(Jvm(spark), opened).define(definition, dataset)


def _opened(
    spark: SparkSession, identifier: Identifier, entry: CatalogEntry | None, *, is_new: bool
) -> OpenLog | None:
    if not unavailable(spark, identifier):
        return open_log(spark, identifier, entry=entry)
    if not is_new:
        return None
    # Delta's checks do not depend on the catalog: any folder that does not exist will do.
    jvm = Jvm(spark)
    location = location_in_new_schema(jvm, _NOWHERE, identifier.name)
    return open_folder(jvm, location, registered=False)
