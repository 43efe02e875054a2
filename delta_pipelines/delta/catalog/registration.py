"""Register tables in the catalog, and refresh what Spark has cached for them."""

import logging

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.entries import location_in_new_schema, table_identifier
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier

log = logging.getLogger(__name__)


def register(spark: SparkSession, identifier: Identifier, location: str) -> None:
    """Register a Delta table with a first commit in the session catalog, as a managed table.

    Schema and properties stay only in the log, as with Delta's own tables. It is not an error if
    another process has just registered the same table.

    Args:
        spark: A classic session.

    Raises:
        DatasetError: The name now belongs to another table.
    """
    jvm = Jvm(spark)
    catalog = jvm.session.sessionState().catalog()
    name = table_identifier(jvm, identifier)
    try:
        catalog.createTable(_entry(jvm, name, location), False, False)
        return
    except PySparkException as exc:
        if not catalog.tableExists(name):
            raise DatasetError(
                f"the table was written to {location} but could not be registered in the catalog: "
                f"{exc}. The next run registers it.",
                dataset=str(identifier),
                transient=True,
            ) from exc
    entered = optional(catalog.getTableMetadata(name).storage().locationUri())
    path = jvm.root.org.apache.hadoop.fs.Path
    if entered is None or path(entered).toUri().getPath() != path(location).toUri().getPath():
        raise DatasetError(
            f"the table was written to {location}, but the catalog now has another table of this "
            f"name at {entered}: drop one of the two tables.",
            dataset=str(identifier),
        )


def refresh(spark: SparkSession, identifier: Identifier, location: str) -> None:
    """Refresh cached plans that read a table, by name or by path, after a commit.

    Delta refreshes them after its own commands, but not after a transaction's commit. A cached plan
    that does not fit the new schema is dropped from the cache.

    Args:
        spark: A classic session; all sessions of its context share the cache.
    """
    jvm = Jvm(spark)
    jvm.session.sessionState().catalog().refreshTable(table_identifier(jvm, identifier))
    if jvm.session.sharedState().cacheManager().isEmpty():
        return
    try:
        spark.catalog.refreshByPath(location)
    except PySparkException as exc:
        # Spark removes all plans over the path from the cache before it plans them again. So no
        # plan returns old rows; only the plan that no longer resolves is lost.
        log.debug("%s: a cached plan does not fit the table any more: %s", identifier, exc)


def make_schema_folder(spark: SparkSession, schema: str) -> None:
    """Create the folder of a schema before the schema is created.

    Hive creates a missing folder. If another process has just created the same schema, Hive then
    deletes that folder, with the tables that are already in it.
    """
    jvm = Jvm(spark)
    table = location_in_new_schema(jvm, schema, "t")
    folder = jvm.root.org.apache.hadoop.fs.Path(table).getParent()
    folder.getFileSystem(jvm.session.sessionState().newHadoopConf()).mkdirs(folder)


def _entry(jvm: Jvm, name: JavaObject, location: str) -> JavaObject:
    catalog = "org.apache.spark.sql.catalyst.catalog"
    table = jvm.object(f"{catalog}.CatalogTable")
    storage = jvm.object(f"{catalog}.CatalogStorageFormat").empty()
    uri = jvm.root.org.apache.hadoop.fs.Path(location).toUri()
    # A later Spark may add fields at the end; defaults are read by position.
    kept = [getattr(storage, f"copy$default${n}")() for n in range(2, storage.productArity() + 1)]
    given = [
        name,
        jvm.object(f"{catalog}.CatalogTableType").MANAGED(),
        storage.copy(jvm.some(uri), *kept),
        jvm.root.org.apache.spark.sql.types.StructType(),
        jvm.some("delta"),
    ]
    arity = len(_constructor(jvm, f"{catalog}.CatalogTable").getParameterTypes())
    rest = [getattr(table, f"apply$default${n}")() for n in range(len(given) + 1, arity + 1)]
    return table.apply(*given, *rest)


def _constructor(jvm: Jvm, name: str) -> JavaObject:
    loader = jvm.root.java.lang.Thread.currentThread().getContextClassLoader()
    constructors = list(jvm.root.java.lang.Class.forName(name, True, loader).getConstructors())
    return max(constructors, key=lambda constructor: len(constructor.getParameterTypes()))
