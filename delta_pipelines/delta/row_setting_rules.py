"""Which Spark settings can change rows, by name. Pure.

A setting of `spark.sql.` counts, unless it is known to decide only how fast, how parallel, where or
with which messages a query is computed. So an unknown setting, of another Spark version or of a
library, counts too: that costs an unnecessary refresh, but never keeps wrong rows. A test compares
all settings that Spark registers with a reviewed list.
"""

from functools import lru_cache

from delta_pipelines.security.redaction import is_sensitive

_SQL = "spark.sql."
TIME_ZONE = "spark.sql.session.timeZone"

_NEVER = (
    # How a plan is optimized and executed: every way gives the same rows.
    *("adaptive.", "autoBroadcastJoinThreshold", "bucketing.", "cartesianProductExec.", "cbo."),
    *(
        "codegen.",
        "columnVector.",
        "constraintPropagation.",
        "exchange.",
        "inMemoryColumnarStorage.",
    ),
    *("inMemoryTableScanStatistics.", "join.", "leafNodeDefaultParallelism", "limit."),
    *("maxBroadcastTableSize", "maxSinglePartitionBytes", "objectHashAggregate."),
    *("optimizeNullAwareAntiJoin", "optimizer.", "planner.", "requireAllClusterKeysFor"),
    *("sessionWindow.buffer.", "shuffle.", "shuffledHashJoinFactor", "sort.", "sortMergeJoinExec."),
    *("sources.bucketing.", "sources.v2.bucketing.", "statistics.", "subexpressionElimination."),
    *("subquery.", "unionOutputPartitioning", "window.segmentTree.", "windowExec."),
    *("execution.broadcastHashJoin.", "execution.rangeExchange.", "execution.removeRedundant"),
    *("execution.replaceHashWithSortAgg", "execution.reuseSubquery", "execution.topKSortFallback"),
    *("execution.sortBeforeRepartition", "execution.useObjectHashAggregateExec"),
    *("execution.usePartitionEvaluator", "defaultSizeInBytes"),
    # How files are listed, split, cached and written.
    *(
        "files.maxPartition",
        "files.minPartition",
        "files.maxRecordsPerFile",
        "files.openCostInBytes",
    ),
    *("filesourceTableRelationCacheSize", "hive.filesourcePartitionFileCacheSize"),
    *("hive.gatherFastStats", "hive.metastorePartitionPruning", "addPartitionInBatch."),
    *("sources.commitProtocolClass", "sources.outputCommitterClass", "sources.ignoreDataLocality"),
    *("sources.fileCompressionFactor", "sources.parallelPartitionDiscovery."),
    *("sources.schemaStringLengthThreshold", "sources.useListFilesFileSystemList"),
    *("maxConcurrentOutputFileWriters", "metadataCacheTTLSeconds", "cache.serializer"),
    *("defaultCacheStorageLevel", "warehouse.dir", "execution.fastFailOnFileFormatOutput"),
    # Locations and servers: the versions of tables and files show what was read from them.
    *("artifact.", "catalog.", "catalogImplementation", "hive.metastore.", "hive.thriftServer."),
    *("hive.version", "maven.", "globalTempDatabase", "sources.disabledJdbcConnProviderList"),
    *("classic.shuffleDependency.", "connect.shuffleDependency.", "shuffleDependency."),
    *("thriftServer.", "thriftserver.", "truncateTable.", "pipelines.", "session.localRelation"),
    # Threads, waiting and interruption.
    *("broadcastExchange.", "broadcastTimeout", "resultQueryStage.", "shuffleExchange."),
    *("execution.interruptOnCancel", "execution.pyspark.udf.", "scriptTransformation."),
    # Messages, logs and user interfaces.
    *("cli.", "debug", "dataFrameQueryContext.", "dataframeCache.", "error.", "event."),
    *("expressionTreeChangeLog.", "extendedExplainProviders", "lightweightPlanChangeValidation"),
    *("maxMetadataStringLength", "maxPlanStringLength", "nameResolutionLog.", "planChange"),
    *("pyspark.dataSource.profiler", "pyspark.jvmStacktrace.", "pyspark.plotting."),
    *("pyspark.udf.profiler", "pyspark.worker.logging.", "queryExecutionListeners", "redaction."),
    *("repl.", "stackTracesInDataFrameContext", "ui."),
    # A stream finds out itself what is new: its settings never decide that it is skipped.
    "streaming.",
)
"""Prefixes of names after `spark.sql.`; each is an area or a name that cannot change rows."""
_BUT_COUNT = (
    *("optimizer.decorrelate", "optimizer.excludedRules", "optimizer.metadataOnly"),
    *("optimizer.enableCsvExpressionOptimization", "optimizer.enableJsonExpressionOptimization"),
)
"""Exceptions: legacy behaviour with other rows, and shortcuts that hide damaged files."""
_FORMATS = tuple(f"{_SQL}{name}." for name in ("avro", "csv", "json", "orc", "parquet", "python"))
_NEVER_OF_FORMATS = (
    *("compression", "filterPushdown", "aggregatePushdown", "columnarReader", "columnarWriter"),
    *("VectorizedReader", "writeLegacyFormat", "bufferPool", ".level", "inputBufferSize"),
    *("inFilterThreshold", "output.committer"),
)
"""Parts of names of file format settings that cannot change rows."""
_NEVER_OF_PYTHON = ("compression", "buffer.size", "concurrency", "pyspark.selfDestruct")
"""The same for the transfer of rows to Python: the batches count, their encoding does not."""


@lru_cache(maxsize=4096)
def counts(name: str) -> bool:
    """Say whether a setting can change rows, by its full name.

    A credential never counts: it gives access to a source but does not change its rows.

    Example:
        >>> counts("spark.sql.ansi.enabled"), counts("spark.sql.shuffle.partitions")
        (True, False)
    """
    if not name.startswith(_SQL) or is_sensitive(name):
        return False
    if name.startswith(_FORMATS) and any(part in name for part in _NEVER_OF_FORMATS):
        return False
    short = name[len(_SQL) :]
    if short.startswith("execution.") and any(part in short for part in _NEVER_OF_PYTHON):
        return False
    return short.startswith(_BUT_COUNT) or not short.startswith(_NEVER)
