"""Find the files of tables that a query reads, after Delta has skipped files by statistics."""

from urllib.parse import unquote

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import class_name, items

_READS_FILES = "LogicalRelation"
_READS_NOTHING = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_ANSWERS_FROM_LOG = "spark.databricks.delta.optimizeMetadataQuery.enabled"


def files_read(frame: DataFrame) -> frozenset[str] | None:
    """Return the names of the files that a query reads, without their folders; runs no query.

    Args:
        frame: A query in a session that no other code uses; this session is changed.

    Returns:
        None when they are unknown: the query has a subquery, or reads something else than files.
    """
    # Delta could answer a count from the log, and the plan would then show no file.
    frame.sparkSession.conf.set(_ANSWERS_FROM_LOG, "false")
    plan = frame._jdf.queryExecution().optimizedPlan()
    if not plan.subqueriesAll().isEmpty():
        return None
    kinds = {class_name(leaf).rpartition(".")[2] for leaf in items(plan.collectLeaves())}
    if not kinds <= {_READS_FILES, *_READS_NOTHING}:
        return None
    return frozenset(unquote(path).rpartition("/")[2] for path in frame.inputFiles())
