"""What to say, and whether to run again, when another writer was faster."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.spark_errors import conflict_class
from delta_pipelines.delta.log.loading import history_entry
from delta_pipelines.errors import DatasetError, PipelineError

_FOR_GOOD = ("ProtocolChangedException", "ConcurrentTransactionException")


def conflict_error(
    spark: SparkSession,
    exc: BaseException,
    *,
    dataset: str,
    location: str,
    base_version: int | None,
) -> DatasetError | None:
    """Turn Delta's conflict into one sentence, or None when the failure was no conflict.

    Args:
        spark: The session.
        exc: What the commit raised.
        dataset: Qualified name of the table.
        location: The table's folder.
        base_version: The version the transaction read, None for a table that did not exist.

    Returns:
        A transient error when running again can help: not when the protocol changed or when the
        same application's batch was committed by another run.
    """
    kind = conflict_class(exc)
    if kind is None:
        return None
    version = 0 if base_version is None else base_version + 1
    winner = _winner(spark, location, version)
    # Two runs that create one table clash over its protocol; the second finds it next time.
    transient = kind not in _FOR_GOOD or base_version is None
    if transient:
        then = "Nothing was written; run it again."
    elif kind == "ConcurrentTransactionException":
        then = (
            "It wrote the same stream's batch: another run of this dataset is active. Nothing was "
            "written; stop one of the two."
        )
    else:
        then = (
            "It changed the table's protocol. Nothing was written; check what upgraded the table, "
            "then run it again."
        )
    error = DatasetError(
        f"another writer committed version {version}{winner} meanwhile ({kind}). {then}",
        dataset=dataset,
        transient=transient,
    )
    error.__cause__ = exc
    return error


def _winner(spark: SparkSession, location: str, version: int) -> str:
    try:
        entry = history_entry(spark, location, version)
    except PipelineError:
        return ""
    return f" ({entry.operation})" if entry and entry.operation else ""
