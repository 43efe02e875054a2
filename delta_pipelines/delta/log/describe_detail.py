"""Read a table's state with SQL only, where Delta's log cannot be read through the JVM."""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.schema_mapping import logical_schema
from delta_pipelines.model.table_definition import visible_properties
from delta_pipelines.model.table_state import TableState


def described_table(spark: SparkSession, identifier: Identifier) -> TableState | None:
    """Read a table's state with `DESCRIBE DETAIL`; starts Spark jobs.

    Returns:
        None if the catalog has no such table.

    Raises:
        DatasetError: The name is a view, or a table of another format.
    """
    if not spark.catalog.tableExists(identifier.quoted):
        return None
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {identifier.quoted}").first()
    except AnalysisException as exc:
        raise DatasetError(
            "the catalog has a view of this name: drop it, or give the dataset another name.",
            dataset=str(identifier),
        ) from exc
    if detail is None or detail["format"] != "delta":
        kind = "non-Delta" if detail is None else detail["format"]
        raise DatasetError(
            f"the catalog has a {kind} table of this name, not a Delta table: drop or convert it, "
            "or give the dataset another name.",
            dataset=str(identifier),
        )
    with explained(str(identifier)):
        latest = spark.sql(f"DESCRIBE HISTORY {identifier.quoted} LIMIT 1").first()
        schema = spark.table(identifier.quoted).schema
    assert latest is not None
    return TableState(
        identifier=identifier,
        location=detail["location"],
        table_id=detail["id"],
        version=latest["version"],
        schema=logical_schema(schema),
        partition_columns=tuple(detail["partitionColumns"]),
        cluster_columns=tuple(detail["clusteringColumns"]),
        properties=visible_properties(detail["properties"]),
        comment=detail["description"] or None,
        files=detail["numFiles"],
        size_bytes=detail["sizeInBytes"],
        written_ms=round(detail["lastModified"].timestamp() * 1000),
    )
