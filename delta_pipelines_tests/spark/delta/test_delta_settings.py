"""Every setting that Spark knows was looked at: it can change rows, or it cannot."""

from delta_pipelines.delta.query.row_settings import registered_settings
from delta_pipelines.delta.row_setting_rules import counts

REVIEWED = (
    *("allowNamedFunctionArguments", "alwaysInlineCommonExpr", "analyzer.", "ansi."),
    *("assumeAnsiFalseIfNotPersisted.", "avro.datetimeRebaseMode", "binaryOutputStyle"),
    *("caseSensitive", "charAsVarchar", "chunkBase64String.", "collation."),
    *("columnNameOfCorruptRecord", "crossJoin.", "csv.parser.columnPruning.", "cteRecursion"),
    *("cteRelationDefMaxRows.", "dataSource.", "datetime.java8API.", "decimalOperations."),
    *("defaultCatalog", "defaultColumn.", "defaultPath", "defaultUrlStreamHandlerFactory."),
    *("dropTableOnView.", "enforceTypeCoercionBeforeUnionDeduplication.", "execution.arrow."),
    *("execution.datasources.", "execution.pandas.", "execution.pyspark.", "execution.python"),
    *("extensions", "fileSource.insert.", "files.ignore", "files.supportSecondOffsetFormat"),
    *("function.", "functionResolution.", "geospatial.", "groupByAliases", "groupByOrdinal"),
    *("hive.advancedPartitionPredicatePushdown.", "hive.caseSensitiveInferenceMode"),
    *("hive.convert", "hive.dropPartitionByName.", "hive.manageFilesourcePartitions"),
    *("hive.tablePropertyLengthThreshold", "hive.useDelegateForSymlinkTextInputFormat"),
    *("icu.", "insertIntoReplace", "insertNestedTypeCoercion.", "json.enable"),
    *("json.useUnsafeRow", "jsonGenerator.", "lateralColumnAlias.", "lazySetOperatorOutput."),
    *("legacy.", "listagg.", "mapKeyDedupPolicy", "mapZipWithUsesJavaCollections"),
    *("mergeNestedTypeCoercion.", "operatorPipeSyntaxEnabled", "optimizer.decorrelate"),
    *("optimizer.enableCsvExpression", "optimizer.enableJsonExpression", "optimizer.excludedRules"),
    *("optimizer.metadataOnly", "orc.impl", "orc.mergeSchema", "orderByOrdinal"),
    *("orderingAwareLimitOffset", "parquet.binaryAsString", "parquet.datetimeRebaseMode"),
    *("parquet.fieldId.", "parquet.ignoreVariantAnnotation", "parquet.inferTimestampNTZ."),
    *("parquet.int96", "parquet.mergeSchema", "parquet.outputTimestampType", "parquet.reader."),
    *("parquet.recordLevelFilter.", "parquet.respectSummaryFiles", "parquet.variant."),
    *("parser.", "path.", "pivotMaxValues", "preserveCharVarcharTypeInfo"),
    *("prioritizeOrdinalResolutionInSort.", "pyspark.infer", "pyspark.legacy.", "pyspark.toJSON."),
    *("readSideCharPadding", "retainGroupColumns", "runCollationTypeCastsBeforeAliasAssignment."),
    *("runSQLOnFiles", "scripting.", "selfJoinAutoResolveAmbiguity", "session.timeZone"),
    *("sources.binaryFile.", "sources.default", "sources.partitionColumnTypeInference."),
    *("sources.partitionOverwriteMode", "sources.useV1SourceList"),
    *("sources.validatePartitionColumns", "stableDerivedColumnAlias.", "storeAssignmentPolicy"),
    *("timeTravel", "timeType.", "timestampType", "transposeMaxValues", "tvf.", "types."),
    *("udt.", "useCommonExprIdForAlias", "variable.", "variant.", "view.", "xml."),
)
"""Beginnings of names behind `spark.sql.` of what counts. Everything else stands in
`setting_rules.py`, as what cannot change rows."""


def test_every_setting_of_this_spark_was_reviewed(spark):
    """When it fails after an update: read what Spark says of each, and put it into one list."""
    prefix = "spark.sql."
    names = [n.removeprefix(prefix) for n in registered_settings(spark) if n.startswith(prefix)]
    assert len(names) > 700
    counting = [name for name in names if counts(prefix + name)]
    assert [name for name in counting if not name.startswith(REVIEWED)] == []
    still = [name for name in REVIEWED if not any(n.startswith(name) for n in counting)]
    assert still == [], "of an earlier Spark"
