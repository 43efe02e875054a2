"""Open a merge's target: a Delta table by name or by path."""

import re

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from delta_pipelines.errors import MergeError

_BY_PATH = re.compile(r"delta\.`(?P<path>[^`]+)`", re.IGNORECASE)
"""A path in SQL notation."""


def open_target(spark: SparkSession, target: str) -> DeltaTable:
    """Open a merge's target.

    Args:
        spark: The session that will run the merge.
        target: A path if it contains "/", else a name; a path may also be in SQL notation.

    Raises:
        MergeError: The target does not exist, is a view, or is not a Delta table.
    """
    by_path = _BY_PATH.fullmatch(target)
    if by_path is not None or "/" in target:
        return _open_path(spark, by_path["path"] if by_path is not None else target)
    try:
        found = spark.catalog.getTable(target)
    except AnalysisException as exc:
        raise MergeError(
            f"cannot merge into it, because there is no such table ({_condition(exc)}). Create it "
            f"first, or qualify its name: the current schema is {spark.catalog.currentDatabase()}.",
            dataset=target,
        ) from exc
    if found.isTemporary or found.tableType == "VIEW":
        kind = "temporary view" if found.isTemporary else "view"
        raise MergeError(
            f"cannot merge into it, because it is a {kind}. Merge into the Delta table that the "
            "view reads.",
            dataset=target,
        )
    try:
        return DeltaTable.forName(spark, target)
    except AnalysisException as exc:
        raise MergeError(
            f"cannot merge into it, because it is not a Delta table ({_condition(exc)}). "
            "Convert it with CONVERT TO DELTA, or merge into a copy written as Delta.",
            dataset=target,
        ) from exc


def _open_path(spark: SparkSession, path: str) -> DeltaTable:
    try:
        return DeltaTable.forPath(spark, path)
    except AnalysisException as exc:
        raise MergeError(
            f"cannot merge into it, because there is no Delta table at this path "
            f"({_condition(exc)}). Check the path, or write the table first.",
            dataset=path,
        ) from exc


def _condition(exc: AnalysisException) -> str:
    return exc.getCondition() or type(exc).__name__
