"""Create missing schemas."""

import threading
from typing import TYPE_CHECKING

from delta_pipelines.delta.catalog.registration import make_schema_folder
from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.log.loading import schema_exists
from delta_pipelines.model.identifiers import Identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_creating = threading.Lock()
"""Serializes parallel datasets, which would otherwise warn that the schema already exists."""


def ensure_schema(spark: "SparkSession", identifier: Identifier) -> None:
    """Create the schema of a table or view if it is missing."""
    namespace = identifier.quoted.rpartition(".")[0]
    with _creating:
        if unavailable(spark, identifier):
            is_there = spark.catalog.databaseExists(namespace)
        else:
            is_there = schema_exists(
                spark, identifier
            )  # one call to Hive; Spark's own check makes two
        if not is_there:
            if not unavailable(spark, identifier):
                make_schema_folder(spark, identifier.schema)
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {namespace}")
