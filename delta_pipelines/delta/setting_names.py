"""Names of Delta's settings and table properties that several modules set or ask for."""

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""What every commit of the session is to say about itself."""
TXN_APPLICATION = "spark.databricks.delta.write.txnAppId"
TXN_NUMBER = "spark.databricks.delta.write.txnVersion"
"""Who writes, and which of its writes this is: one that a table remembers is not done again."""

APPEND_ONLY = "delta.appendOnly"
COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
DELETION_VECTORS = "delta.enableDeletionVectors"
