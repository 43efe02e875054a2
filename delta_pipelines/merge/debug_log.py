"""DEBUG lines of our executors, in the wording of Delta's MERGE.

Source of the texts: Delta's `MergeIntoCommand`. The text of a join's plan takes an extra planning,
so it is composed only if DEBUG is on.
"""

import logging

from pyspark.sql import DataFrame

from delta_pipelines.delta.merge.materialized_rows import plan_text
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.merge.matches import Matches


def log_touched(log: logging.Logger, matches: Matches) -> None:
    """Log the files in which rows change."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("findTouchedFiles: matched files:\n  %s", "\n  ".join(matches.files))


def log_join(
    log: logging.Logger,
    kind: str,
    source: DataFrame,
    target: DataFrame,
    plan: MergePlan,
    joined: DataFrame,
) -> None:
    """Log the join of the touched files' rows with the source.

    Args:
        log: The logger.
        kind: Kind of the join: `leftOuter`, which is `rightOuter` in Delta: our target is left.
        source: The source's rows.
        target: The rows of the touched files.
        plan: The merge.
        joined: The join.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return
    log.debug(
        "writeAllChanges using %s join:\nsource.output: %s\ntarget.output: %s\n"
        "condition: %s\nnewTarget.output: %s",
        kind,
        source.columns,
        plan.target.schema.names,
        plan.condition,
        target.columns,
    )
    log.debug("writeAllChanges: join output plan:\n%s", plan_text(joined))
