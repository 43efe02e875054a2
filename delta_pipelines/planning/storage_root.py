"""The folder of a pipeline's state outside of tables."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_FOLDER = "_delta_pipelines"
"""Inside the warehouse; Spark ignores folders that start with `_`."""


def default_storage(spark: "SparkSession", pipeline: str) -> str:
    """The default storage root of a pipeline: a folder in the session's warehouse."""
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir"))
    return f"{warehouse.rstrip('/')}/{STATE_FOLDER}/{pipeline}"
