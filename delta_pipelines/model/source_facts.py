"""Facts about a merge's source that are known before its rows are read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFacts:
    """What the analysed plan of a source and the session say about reading it twice.

    Args:
        only_delta_scans: Every leaf, also inside subqueries, is a Delta table or not a table.
        deterministic: Only projections, filters, unions and distincts of deterministic
            expressions; a join, an aggregate, a sort, a limit or a correlated subquery is not.
        ignores_unreadable_files: `spark.sql.files.ignoreMissingFiles` or `ignoreCorruptFiles`,
            as a setting or as a read option, and Delta is to materialise then (its default).
        has_udf: A user-defined function somewhere, even if marked deterministic.
        cached: Some part is cached, and Delta is to materialise then (its default).

    Example:
        >>> SourceFacts().deterministic
        True
    """

    only_delta_scans: bool = True
    deterministic: bool = True
    ignores_unreadable_files: bool = False
    has_udf: bool = False
    cached: bool = False
