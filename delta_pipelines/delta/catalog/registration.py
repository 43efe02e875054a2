"""The catalog's side of a table: its entry, and what Spark has cached over it."""

import logging

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.entries import location_in_new_schema, table_identifier
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier

log = logging.getLogger(__name__)


def register(spark: SparkSession, identifier: Identifier, location: str) -> None:
    """Enter a Delta table that has its first commit into the session catalog, as a managed table.

    Schema and properties stay in the log alone, as Delta itself does it. When somebody else has
    just entered the same table, that is fine.

    Args:
        spark: A classic session.
        identifier: The name.
        location: The table's folder.

    Raises:
        DatasetError: When the name has meanwhile been given to another table.
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
                f"the table is written at {location} but could not be entered in the catalog: "
                f"{exc}. The next run enters it.",
                dataset=str(identifier),
                transient=True,
            ) from exc
    entered = optional(catalog.getTableMetadata(name).storage().locationUri())
    path = jvm.root.org.apache.hadoop.fs.Path
    if entered is None or path(entered).toUri().getPath() != path(location).toUri().getPath():
        raise DatasetError(
            f"the table is written at {location}, but the catalog meanwhile has a table of this "
            f"name at {entered}: drop one of the two.",
            dataset=str(identifier),
        )


def refresh(spark: SparkSession, identifier: Identifier, location: str) -> None:
    """Make cached plans over a table, read by name or by path, see its latest commit.

    Delta refreshes them after its own commands, not after a transaction's commit. A cached plan
    that does not fit the new schema any more is dropped from the cache.

    Args:
        spark: A classic session; the cache is shared by all sessions of the context.
        identifier: The table's name.
        location: The table's folder.
    """
    jvm = Jvm(spark)
    jvm.session.sessionState().catalog().refreshTable(table_identifier(jvm, identifier))
    if jvm.session.sharedState().cacheManager().isEmpty():
        return
    try:
        spark.catalog.refreshByPath(location)
    except PySparkException as exc:
        # Spark has taken every plan over the path out of the cache before it plans them anew, so
        # none answers with old rows; only the one that no longer resolves is lost.
        log.debug("%s: a cached plan no longer fits the table: %s", identifier, exc)


def make_schema_folder(spark: SparkSession, schema: str) -> None:
    """Make the folder of a schema that is about to be created.

    Hive makes a folder that is missing. When it then finds that another process has just created
    the schema, it deletes that folder, with the tables that are in it by now.

    Args:
        spark: A session whose JVM is in reach.
        schema: Name of a schema in the session catalog.
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
    # A later Spark may add a field at the end; every default is asked for by its position.
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
