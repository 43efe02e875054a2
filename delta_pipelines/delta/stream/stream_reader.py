"""Read Delta tables as streams, and explain why a stream stopped."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import explain
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.table_state import TableState

CHANGE_COLUMNS = (
    StructField("_change_type", StringType()),
    StructField("_commit_version", LongType()),
    StructField("_commit_timestamp", TimestampType()),
)
"""Columns that Delta's change data feed adds to a row."""

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")


class StreamFailure(Enum):
    """Why a stream stopped, if something can be done about it."""

    OVERWRITTEN = "rows of its source were changed or deleted"
    REPLACED = "its source was dropped and created again"
    EXPIRED = "its source no longer has data that the checkpoint still needs"
    SCHEMA_CHANGED = "its source got other columns while the stream ran"
    OTHER_COLUMNS = "columns of its source were renamed, dropped or given other types"
    OTHER_SOURCES = "its query reads other streams than its checkpoint knows"
    OTHER_STATE = "its query keeps other state than its checkpoint knows"
    OTHER = "something else"


_CONDITIONS = {
    "DELTA_SOURCE_IGNORE_DELETE": StreamFailure.OVERWRITTEN,
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES": StreamFailure.OVERWRITTEN,
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE": StreamFailure.REPLACED,
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE": StreamFailure.EXPIRED,
    "DELTA_LOG_FILE_NOT_FOUND": StreamFailure.EXPIRED,
    "DELTA_FILE_NOT_FOUND": StreamFailure.EXPIRED,
    "DELTA_MISSING_CHANGE_DATA": StreamFailure.EXPIRED,
    "DELTA_TRUNCATED_TRANSACTION_LOG": StreamFailure.EXPIRED,
    "DELTA_VERSIONS_NOT_CONTIGUOUS": StreamFailure.EXPIRED,
    "FAILED_READ_FILE.FILE_NOT_EXIST": StreamFailure.EXPIRED,
    "DELTA_SCHEMA_CHANGED": StreamFailure.SCHEMA_CHANGED,
    "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS": StreamFailure.SCHEMA_CHANGED,
    "DELTA_SCHEMA_CHANGED_WITH_VERSION": StreamFailure.SCHEMA_CHANGED,
    # Sources that a query opens itself, with a schemaTrackingLocation.
    "DELTA_STREAMING_METADATA_EVOLUTION": StreamFailure.SCHEMA_CHANGED,
    "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART": StreamFailure.SCHEMA_CHANGED,
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION": StreamFailure.OTHER_COLUMNS,
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE": StreamFailure.OTHER_COLUMNS,
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG": StreamFailure.OTHER_COLUMNS,
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA": StreamFailure.OTHER_COLUMNS,
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE": StreamFailure.OTHER_COLUMNS,
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": StreamFailure.OTHER_STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": StreamFailure.OTHER_STATE,
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": StreamFailure.OTHER_STATE,
}
"""Delta's and Spark's error conditions, as of Delta 4.4 and Spark 4.2."""


def read_stream(spark: SparkSession, state: TableState, how: Stream | Changes) -> DataFrame:
    """Read a table as a stream; nothing is run.

    Args:
        how: Appended rows or row changes.

    Raises:
        DatasetError: Delta cannot read the table as this kind of stream.

    Example:
        >>> read_stream(spark, load_table(spark, identifier), Stream("flights")).isStreaming
        True
    """
    reader = spark.readStream.format("delta")
    if isinstance(how, Changes):
        reader = reader.option("readChangeFeed", "true")
    elif how.skip_change_commits:
        reader = reader.option("skipChangeCommits", "true")
    with active(spark):
        try:
            return reader.load(state.location)
        except PySparkException as exc:
            raise explain(exc, str(state.identifier)) from exc


def stream_schema(schema: StructType, how: Stream | Changes) -> StructType:
    """Return the columns of a stream over a table with this schema."""
    extra = CHANGE_COLUMNS if isinstance(how, Changes) else ()
    return StructType([*schema.fields, *extra])


def empty_stream(spark: SparkSession, schema: StructType) -> DataFrame:
    """Create a stream without rows, to analyse queries over a table that does not exist yet."""
    columns = [_of_a_field(field) for field in schema.fields]
    return spark.readStream.format("rate").load().where("false").select(*columns)


def _of_a_field(field: StructField) -> Column:
    # With its metadata: otherwise a column comment would come and go between runs.
    return F.lit(None).cast(field.dataType).alias(field.name, metadata=field.metadata)


def check_appends(frame: DataFrame) -> None:
    """Reject a streaming query that cannot append its rows, as starting it would.

    Args:
        frame: An analysed stream.

    Raises:
        DatasetError: An aggregation without a watermark, a sort, and the like.
    """
    spark = frame.sparkSession
    root = Jvm(spark).root
    checker = root.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = root.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
    except PySparkException as exc:
        raise explain(exc, "") from exc
    except Py4JError:
        return  # Spark checks again when the stream starts.


def stream_failure(error: StreamingQueryException) -> StreamFailure:
    """Say why a stream stopped, from the error of waiting for it."""
    text = str(error)
    for condition in _CONDITION.findall(text):
        if condition in _CONDITIONS:
            return _CONDITIONS[condition]
    if "assertion failed: Invalid batch:" in text:  # a batch of Delta's source after an ALTER
        return StreamFailure.SCHEMA_CHANGED
    if "sources in the checkpoint offsets" in text:
        return StreamFailure.OTHER_SOURCES
    if "FileNotFoundException" in text or "does not exist" in text:
        return StreamFailure.EXPIRED
    return StreamFailure.OTHER


@contextmanager
def quiet_callbacks() -> Iterator[None]:
    """Stop py4j from logging a micro-batch's exception, which reaches the caller anyway."""
    log = logging.getLogger("py4j.clientserver")
    # A new filter for each stream: a shared filter is added only once, and the first stream that
    # ends would remove it for all streams.
    callbacks = _NoCallbacks()
    log.addFilter(callbacks)
    try:
        yield
    finally:
        log.removeFilter(callbacks)


class _NoCallbacks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "executing the Python Proxy" not in str(record.msg)


def stream_text(error: StreamingQueryException) -> str:
    """Return why a stream stopped, without the id of its run and without Java's stack."""
    text = str(error).partition("terminated with exception:")[2] or str(error)
    return text.partition("\n=== Streaming Query ===")[0].partition("\n\tat ")[0].strip()


def explained_stream(error: StreamingQueryException, dataset: str) -> DatasetError:
    """Turn a stream's failure into one sentence."""
    # Two schemas follow, as long JSON texts.
    text = stream_text(error).partition("Read schema: {")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = " ".join(lines)[:1500]
    return DatasetError(f"its stream failed: {message}", dataset=dataset)
