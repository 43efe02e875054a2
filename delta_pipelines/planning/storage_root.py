"""Where a pipeline keeps what is in no table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_FOLDER = "_delta_pipelines"
"""Inside the warehouse; Spark takes no folder that starts with `_` for data."""


def default_storage(spark: "SparkSession", pipeline: str) -> str:
    """The storage root of a pipeline that names none: a folder in the session's warehouse.

    Args:
        spark: The session.
        pipeline: The pipeline's name.
    """
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir"))
    return f"{warehouse.rstrip('/')}/{STATE_FOLDER}/{pipeline}"
