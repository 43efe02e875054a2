"""How Delta spells its table properties, whatever letter case they are written in."""

FEATURE_PREFIX = "delta.feature."
DELTA_PROPERTIES = (
    "delta.appendOnly",
    "delta.autoOptimize",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.castIcebergTimeType",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.checkpointRetentionDuration",
    "delta.columnMapping.maxColumnId",
    "delta.columnMapping.mode",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.coordinatedCommits.commitCoordinator-preview",
    "delta.coordinatedCommits.commitCoordinatorConf-preview",
    "delta.coordinatedCommits.tableConf-preview",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.deletedFileRetentionDuration",
    "delta.dropFeatureTruncateHistory.retentionDuration",
    "delta.enableChangeDataCapture",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.enableIcebergCompatV3",
    "delta.enableInCommitTimestamps",
    "delta.enableMaterializePartitionColumnsFeature",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.enableVariantShredding",
    "delta.ignoreIcebergBucketPartition",
    "delta.ignoreProtocolDefaults",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.parquet.format.version",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.redirectReaderWriter-preview",
    "delta.redirectWriterOnly-preview",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTrackingSuspended",
    "delta.sampleRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.universalFormat.enabledFormats",
    "delta.universalFormat.iceberg.atomicConversion.supported",
    "delta.writePartitionColumnsToParquet",
)
"""Of `DeltaConfigs` (Delta 4.4); a test holds the names against the library's own."""
_SPELLINGS = {name.lower(): name for name in DELTA_PROPERTIES}


def delta_spelling(key: str) -> str:
    """A table property's name as Delta stores it; one that Delta does not know as it is.

    Args:
        key: In any letter case, which does not count for Delta.

    Example:
        >>> delta_spelling("Delta.EnableChangeDataFeed"), delta_spelling("Quality")
        ('delta.enableChangeDataFeed', 'Quality')
    """
    if key.lower().startswith(FEATURE_PREFIX):
        return FEATURE_PREFIX + key[len(FEATURE_PREFIX) :]
    return _SPELLINGS.get(key.lower(), key)
