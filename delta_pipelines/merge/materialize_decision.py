"""Decide when a merge must materialize its source's rows before reading them twice: pure.

A merge reads its source twice. If the two reads can differ (a replaced file, `rand()`, a limit
without an order), rows are lost or duplicated, so such a source is materialized first. The
decision and its reasons are Delta's own (`MergeIntoMaterializeSource`, Delta 4.4.0). `MergeSource`
carries it out.
"""

from delta_pipelines.model.merge_result import MaterializeSourceReason
from delta_pipelines.model.source_facts import SourceFacts


def should_materialize_source(
    mode: str, facts: SourceFacts, insert_only: bool
) -> tuple[bool, MaterializeSourceReason]:
    """Decide whether a merge materializes its source's rows before reading them.

    Args:
        mode: `spark.databricks.delta.merge.materializeSource`, in any letter case: `auto`, `all`
            or `none`; with any other value, the source is materialized, to be safe.
        facts: What is known about the source.
        insert_only: The merge has only insert clauses, and
            `spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled` is on: then the source
            is read once.

    Returns:
        Whether to materialize, and why.

    Example:
        >>> should_materialize_source("auto", SourceFacts(only_delta_scans=False), False)[1].value
        'materializeNonDeterministicSourceNonDelta'
    """
    reason = MaterializeSourceReason
    match mode.lower():
        case "all":
            return True, reason.MATERIALIZE_ALL
        case "none":
            return False, reason.NOT_MATERIALIZED_NONE
        case "auto" if insert_only:
            return False, reason.NOT_MATERIALIZED_AUTO_INSERT_ONLY
        case "auto":
            unstable = instability(facts)
            return unstable is not None, unstable or reason.NOT_MATERIALIZED_AUTO
        case _:
            return True, reason.INVALID_CONFIG


def instability(facts: SourceFacts) -> MaterializeSourceReason | None:
    """Say why two reads of a source can differ.

    Returns:
        None for a source that always gives the same rows for the same versions of its tables.
    """
    reason = MaterializeSourceReason
    if not facts.only_delta_scans:
        return reason.NON_DETERMINISTIC_SOURCE_NON_DELTA
    if not facts.deterministic:
        return reason.NON_DETERMINISTIC_SOURCE_OPERATORS
    if facts.ignores_unreadable_files:
        return reason.IGNORE_UNREADABLE_FILES_CONFIGS_ARE_SET
    if facts.has_udf:
        return reason.NON_DETERMINISTIC_SOURCE_WITH_DETERMINISTIC_UDF
    if facts.cached:
        return reason.SOURCE_CACHED
    return None
