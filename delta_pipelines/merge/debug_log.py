"""What the own executors tell the log of their work, in the words of Delta's own.

Source of the texts: Delta's `MergeIntoCommand`. The plan of a join takes a planning of its own, so
nothing is composed unless somebody listens.
"""

import logging

from pyspark.sql import DataFrame

from delta_pipelines.delta.merge.materialized_rows import plan_text
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.merge.matches import Matches


def tell_touched(log: logging.Logger, matches: Matches) -> None:
    """Tell in which files rows change.

    Args:
        log: Who tells.
        matches: What was found.
    """
    if log.isEnabledFor(logging.DEBUG):
        log.debug("findTouchedFiles: matched files:\n  %s", "\n  ".join(matches.files))


def tell_join(
    log: logging.Logger,
    kind: str,
    source: DataFrame,
    target: DataFrame,
    plan: MergePlan,
    joined: DataFrame,
) -> None:
    """Tell how the touched files' rows meet those of the source.

    Args:
        log: Who tells.
        kind: Of the join: `leftOuter` where Delta has `rightOuter`, for the target stands left.
        source: The source's rows.
        target: The rows of the touched files.
        plan: The merge.
        joined: Both.
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
