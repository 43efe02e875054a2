"""Skip rows that a merge would not change: `skip_unchanged`.

A MERGE rewrites every matched row and commits even if nothing differs. So source rows that would
change nothing are dropped in the source's own plan. Delta evaluates that plan inside the merge's
transaction: it reads the target at the transaction's snapshot and tracks the read, so that a
concurrent change is a conflict and never a lost update.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.source_facts import equi_join_keys
from delta_pipelines.merge.clauses import Clause, ClauseKind, Expression, MatchedUpdate, clauses_of
from delta_pipelines.merge.key_checks import key_problems, render_keys
from delta_pipelines.merge.row_equality import compare_rows
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.model.balanced_fold import balanced
from delta_pipelines.model.identifiers import quoted

_ROW, _TWIN, _MATCH, _KEEP, _FIRST = (f"__dp_{n}" for n in ("row", "twin", "match", "keep", "nth"))


def skip_unchanged(
    spec: MergeSpec,
    target: DataFrame,
    *,
    case_sensitive: bool,
    schema_evolution: bool,
    widens: bool,
) -> tuple[MergeSpec, str]:
    """Rewrite a merge so that unchanged rows are not written.

    Args:
        spec: A merge with valid clauses, at least one with `skip_unchanged`.
        case_sensitive: The session's `spark.sql.caseSensitive`.
        schema_evolution: Whether the merge or the session enables schema evolution.
        widens: Whether columns may get wider types then.

    Returns:
        The merge to run instead, and what could not be skipped and why; empty if all unchanged rows
        are skipped.
    """
    comparison = compare_rows(
        target.schema,
        spec.source.schema,
        target_alias=spec.target_alias,
        source_alias=spec.source_alias,
        schema_evolution=schema_evolution,
        case_sensitive=case_sensitive,
        widens=widens,
    )
    unchanged = comparison.unchanged
    if unchanged is None:
        columns = ", ".join(comparison.incomparable)
        return spec, f"skip_unchanged has no effect: values of {columns} cannot be compared"
    guarded = replace(spec, clauses=guard_clauses(spec.clauses, unchanged))
    if spec.has_not_matched_by_source:
        return guarded, (
            "skip_unchanged works by a condition: dropping source rows would make their target "
            "rows not matched by source"
        )
    try:
        reduced = _without_idle_rows(spec, target, idle_pair(spec.clauses, unchanged))
    except AnalysisException:
        # Delta's own analysis of the merge reports unresolved names better.
        return guarded, "skip_unchanged works by a condition"
    if reduced is None:
        return guarded, (
            "skip_unchanged works by a condition: ON contains no equality between target and source"
        )
    return replace(guarded, source=reduced), ""


def guard_clauses(clauses: Sequence[Clause], unchanged: Column) -> tuple[Clause, ...]:
    """Add conditions to the matched clauses so that they do not act on skipped rows.

    A clause with `skip_unchanged` no longer acts on an unchanged row, and the matched clauses after
    it must not act on that row instead.

    Args:
        clauses: All clauses, in order.
        unchanged: True for an unchanged pair, never NULL.
    """
    guarded: list[Clause] = []
    skipped: list[Column] = []
    for clause in clauses:
        if clause.kind is ClauseKind.MATCHED:
            skips = isinstance(clause, MatchedUpdate) and clause.skip_unchanged
            own = None if clause.condition is None else as_column(clause.condition)
            parts = [] if own is None else [own]
            parts += [~F.coalesce(condition, F.lit(False)) for condition in skipped]
            if skips:
                parts.append(~unchanged)
                skipped.append(unchanged if own is None else own & unchanged)
            guarded.append(replace(clause, condition=balanced(parts, and_) if parts else None))
        else:
            guarded.append(clause)
    return tuple(guarded)


def idle_pair(clauses: Sequence[Clause], unchanged: Column) -> Column:
    """True for a matched pair on which the merge does nothing.

    Either no matched clause acts, or the first clause that acts skips the row as unchanged.

    Args:
        clauses: All clauses, in order.
        unchanged: True for an unchanged pair, never NULL.
    """
    idle = F.when(F.lit(False), F.lit(False))
    for clause in clauses_of(clauses, ClauseKind.MATCHED):
        skips = isinstance(clause, MatchedUpdate) and clause.skip_unchanged
        acts = F.lit(True) if clause.condition is None else as_column(clause.condition)
        idle = idle.when(acts, unchanged if skips else F.lit(False))
    return idle.otherwise(F.lit(True))


def as_column(expression: Expression) -> Column:
    """Convert an expression to a Column."""
    return F.expr(expression) if isinstance(expression, str) else expression


def ambiguous_keys(spec: MergeSpec, target: DataFrame) -> str:
    """Name source keys that occur more than once and match a target row; empty for none."""
    source, on = spec.source.alias(spec.source_alias), as_column(spec.on)
    target = target.alias(spec.target_alias)
    _, names = equi_join_keys(source.join(target, on))
    if not names:
        return ""
    matching = source.join(target, on, "left_semi")
    samples = key_problems(matching, names, None).duplicate_samples
    if not samples:
        return ""
    return (
        f"Source keys that occur more than once: {render_keys(names, samples)}. Keep one row "
        "per key before the merge."
    )


def _without_idle_rows(spec: MergeSpec, target: DataFrame, idle: Column) -> DataFrame | None:
    s, t, on = spec.source_alias, spec.target_alias, as_column(spec.on)
    keys, _ = equi_join_keys(spec.source.alias(s).join(target.alias(t), on))
    if not keys:
        return None
    # A row always stays if another row has the same key: two rows that match one target row are
    # ambiguous even if one of them is unchanged, and only Delta may decide that.
    twins = F.count(F.lit(1)).over(Window.partitionBy(*keys)) > 1
    numbered = spec.source.withColumn(_TWIN, twins).withColumn(
        _ROW, F.monotonically_increasing_id()
    )
    pairs = numbered.alias(s).join(target.withColumn(_MATCH, F.lit(True)).alias(t), on, "left")
    row = F.col(quoted(s, _ROW))
    works = F.col(quoted(t, _MATCH)).isNull() | F.col(quoted(s, _TWIN)) | ~idle
    same_row = Window.partitionBy(row)
    kept = (
        pairs.withColumn(_KEEP, F.bool_or(works).over(same_row))
        .withColumn(_FIRST, F.row_number().over(same_row.orderBy(row)))
        .where(F.col(_KEEP) & (F.col(_FIRST) == 1))
    )
    # The result has the source's own attributes, so that Columns bound to its frame still resolve.
    return kept.select(*[F.col(quoted(s, name)) for name in spec.source.columns])
