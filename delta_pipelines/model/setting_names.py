"""Names of Delta's settings and table properties that several modules use."""

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""User metadata of every commit of the session."""
TXN_APPLICATION = "spark.databricks.delta.write.txnAppId"
TXN_NUMBER = "spark.databricks.delta.write.txnVersion"
"""Application id and number of a write: Delta skips a write that the table already recorded."""
TXN_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
"""Whether Delta unsets the number after each write, so that the next write needs a new number."""
SHORTCUTS = "spark.delta_pipelines.shortcuts"
"""Setting of ours: `false` turns off the four shortcuts of a start and of small refreshes, which
reach past the public interfaces of Spark, Delta, Hive and Hadoop."""
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
"""Whether every write may add new columns of its rows to the table."""

APPEND_ONLY = "delta.appendOnly"
COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
DELETION_VECTORS = "delta.enableDeletionVectors"
