"""Explain a write conflict, and say whether running again can help."""

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
    """Turn a conflict of Delta into one sentence; None if the failure is not a conflict.

    Args:
        exc: What the commit raised.
        base_version: The version that the transaction read; None if the table did not exist.

    Returns:
        A transient error if running again can help. It cannot help if the protocol changed, or if
        another run committed the batch of the same application.
    """
    kind = conflict_class(exc)
    if kind is None:
        return None
    version = 0 if base_version is None else base_version + 1
    winner = _winner(spark, location, version)
    # Two runs that create one table conflict over its protocol; a retry finds the table.
    transient = kind not in _FOR_GOOD or base_version is None
    if transient:
        then = "Nothing was written; run it again."
    elif kind == "ConcurrentTransactionException":
        then = (
            "It wrote the same batch of the stream: another run of this dataset is active. Nothing "
            "was written; stop one of the two runs."
        )
    else:
        then = (
            "It changed the table's protocol. Nothing was written; check what upgraded the table, "
            "then run it again."
        )
    error = DatasetError(
        f"another writer committed version {version}{winner} in the meantime ({kind}). {then}",
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
