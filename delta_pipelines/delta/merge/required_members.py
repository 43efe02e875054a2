"""Non-public members of Delta and Spark that merges call; if one differs, Delta's MERGE runs."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.signatures import Member, check_signatures
from delta_pipelines.delta.log.add_files import ENTRY_MEMBERS
from delta_pipelines.delta.merge.deletion_vectors import VECTOR_MEMBERS
from delta_pipelines.delta.merge.pinned_query import PIN_MEMBERS
from delta_pipelines.delta.merge.row_numbers import NUMBER_MEMBERS

_DELTA = "org.apache.spark.sql.delta"
_SESSION = "org.apache.spark.sql.SparkSession"
_SEQ, _OPTION, _MAP = (
    "scala.collection.immutable.Seq",
    "scala.Option",
    "scala.collection.immutable.Map",
)
_STRING = "java.lang.String"
_TXN = f"{_DELTA}.OptimisticTransaction"
_OPERATION = f"{_DELTA}.DeltaOperations$Operation"
_STRUCT = "org.apache.spark.sql.types.StructType"
_COMMAND = f"{_DELTA}.commands.MergeIntoCommand"
_HELPER = f"{_DELTA}.commands.DMLWithDeletionVectorsHelper$"
MERGE_MEMBERS = (
    Member(f"{_DELTA}.DeltaLog", "startTransaction", (_OPTION, _OPTION)),
    Member(_TXN, "filterFiles", (_SEQ, "boolean")),
    Member(_TXN, "trackReadPredicates", (_SEQ, "boolean", "boolean")),
    Member(_TXN, "trackFilesRead", (_SEQ,)),
    Member(_TXN, "writeFiles", ("org.apache.spark.sql.Dataset",)),
    Member(_TXN, "txnVersion", (_STRING,)),
    Member(_TXN, "readTxn"),
    Member(f"{_DELTA}.VersionChecksum", "setTransactions"),
    Member(f"{_DELTA}.actions.SetTransaction", "<init>", (_STRING, "long", _OPTION)),
    Member(_TXN, "registerSQLMetrics", (_SESSION, _MAP)),
    Member(_TXN, "commitIfNeeded", (_SEQ, _OPERATION, _MAP)),
    Member(_TXN, "getOperationMetrics", (_OPERATION,)),
    Member(_HELPER, "generateCandidateFileMap", ("org.apache.hadoop.fs.Path", _SEQ)),
    Member(_HELPER, "getTouchedFile", ("org.apache.hadoop.fs.Path", _STRING, _MAP)),
    Member(_HELPER, "findFilesWithMatchingRows", (_TXN, _MAP, _SEQ)),
    Member(_HELPER, "processUnmodifiedData", (_SESSION, _SEQ, f"{_DELTA}.Snapshot", "int")),
    Member(_COMMAND, "buildTargetPlanWithFiles", (_SESSION, _TXN, _SEQ, _SEQ)),
    Member(_COMMAND, "getTargetOnlyPredicates", (_SESSION,)),
    Member(_COMMAND, "shouldWritePersistentDeletionVectors", (_SESSION, _TXN)),
    Member(f"{_COMMAND}Base$", "totalBytesAndDistinctPartitionValues", (_SEQ,)),
    Member(f"{_DELTA}.DeltaOperations$Merge", "<init>", (*(_OPTION,) * 4, *(_SEQ,) * 3)),
    Member(f"{_DELTA}.actions.AddFile", "removeWithTimestamp", ("long", "boolean")),
    Member(
        f"{_DELTA}.commands.DeletionVectorBitmapGenerator$",
        "buildRowIndexSetsForFilesMatchingCondition",
        (
            *(_SESSION, _TXN, "boolean", "org.apache.spark.sql.Dataset", _SEQ),
            "org.apache.spark.sql.catalyst.expressions.Expression",
            *(_OPTION, _OPTION),
        ),
    ),
    Member(f"{_DELTA}.schema.SchemaUtils$", "reportDifferences", (_STRUCT, _STRUCT)),
    *ENTRY_MEMBERS,
    *VECTOR_MEMBERS,
    *PIN_MEMBERS,
    *NUMBER_MEMBERS,
)
"""Members that our executors and the queries of the source's keys call."""


def missing_members(spark: SparkSession) -> str | None:
    """Name the `MERGE_MEMBERS` that the session's JVM lacks, as a sentence; None for none."""
    return check_signatures(spark, MERGE_MEMBERS)
