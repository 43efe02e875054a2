"""Names of Delta's settings and table properties that several modules set or ask for."""

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""What every commit of the session is to say about itself."""
TXN_APPLICATION = "spark.databricks.delta.write.txnAppId"
TXN_NUMBER = "spark.databricks.delta.write.txnVersion"
"""Who writes, and which of its writes this is: one that a table remembers is not done again."""
TXN_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
"""Whether Delta forgets the number of a write that was done, so that the next one needs its own."""
SHORTCUTS = "spark.delta_pipelines.shortcuts"
"""Setting of ours: `false` turns off the four shortcuts of a start and of small refreshes, which
reach past the public interfaces of Spark, Delta, Hive and Hadoop."""
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
"""Whether every write may add the columns that its rows have."""

APPEND_ONLY = "delta.appendOnly"
COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
DELETION_VECTORS = "delta.enableDeletionVectors"
