"""Schemas: made when missing; a session's current one changed for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_pipelines.delta.loading import schema_exists
from delta_pipelines.delta.signatures import unavailable
from delta_pipelines.identifiers import Identifier, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_creating = threading.Lock()
"""Datasets start side by side; each would warn that another made the schema meanwhile."""


def ensure_schema(spark: "SparkSession", identifier: Identifier) -> None:
    """Create a dataset's schema when it is missing.

    Args:
        spark: The session.
        identifier: The table or view that goes into it.
    """
    namespace = identifier.quoted.rpartition(".")[0]
    with _creating:
        if unavailable(spark, identifier):
            is_there = spark.catalog.databaseExists(namespace)
        else:
            is_there = schema_exists(spark, identifier)  # Spark's own question asks Hive twice
        if not is_there:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {namespace}")


@contextmanager
def current_namespace(spark: "SparkSession", catalog: str | None, schema: str) -> Iterator[None]:
    """Make a catalog and schema the session's current ones while the block runs.

    Args:
        spark: The session; its own current ones are restored whatever happens.
        catalog: Catalog, None to leave it.
        schema: Schema; must exist.
    """
    catalog_before = spark.catalog.currentCatalog()
    schema_before = spark.catalog.currentDatabase()
    try:
        if catalog is not None:
            spark.catalog.setCurrentCatalog(catalog)
        spark.catalog.setCurrentDatabase(quoted(schema))
        yield
    finally:
        spark.catalog.setCurrentCatalog(catalog_before)
        spark.catalog.setCurrentDatabase(quoted(schema_before))
