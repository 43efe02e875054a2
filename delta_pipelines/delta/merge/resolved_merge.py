"""A merge as Delta's analysis resolves it, which can be examined and changed before it runs.

Delta's builder resolves `*`, casts, defaults and generated columns and then runs the command. Here
the same rules are applied to the same builder, without running it. The resulting command can be
examined, given a materialized source and literal predicates, and run.
"""

import sys
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from operator import and_, or_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, items, optional
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.merge.clause_plan import (
    KeyPair,
    PlannedClause,
    Values,
    bound,
    date_literal,
)
from delta_pipelines.delta.merge.key_ranges import Key, KeyRange
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.delta.merge.target import MergeTarget
from delta_pipelines.delta.query.plan_nodes import delta_index
from delta_pipelines.model.balanced_fold import balanced
from delta_pipelines.model.identifiers import quoted

_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
"""Suffixes of SQL literals for the types of integers."""


class MergePlan:
    """Delta's resolved `MergeIntoCommand`.

    The command never changes, and each property takes several round trips to the JVM, so the
    results are cached.

    Args:
        command: The command, not yet run.
        target: Its target, if already known.
    """

    def __init__(self, jvm: Jvm, command: JavaObject, target: MergeTarget | None = None) -> None:
        self._jvm = jvm
        self.command = command
        self.target = target or MergeTarget(jvm, command)

    @cached_property
    def source_columns(self) -> list[int]:
        """Positions of the source's columns that ON, conditions and values read, ascending.

        Source of the rule: `MergeIntoMaterializeSource.getReferencedSourceColumns`.
        """
        read, source = self.command.references(), self.command.source()
        if source.outputSet().subsetOf(read):
            return list(range(source.output().size()))
        return [n for n, attribute in enumerate(items(source.output())) if read.contains(attribute)]

    @cached_property
    def condition(self) -> Column:
        """The condition ON."""
        return self._bound(self.command.condition())

    @cached_property
    def matched(self) -> list[PlannedClause]:
        """The WHEN MATCHED clauses, in their order."""
        return [self._clause(clause) for clause in items(self.command.matchedClauses())]

    @cached_property
    def not_matched(self) -> list[PlannedClause]:
        """The WHEN NOT MATCHED clauses, in their order."""
        return [self._clause(clause) for clause in items(self.command.notMatchedClauses())]

    @cached_property
    def not_matched_by_source(self) -> list[PlannedClause]:
        """The WHEN NOT MATCHED BY SOURCE clauses, in their order."""
        return [self._clause(clause) for clause in items(self.command.notMatchedBySourceClauses())]

    @cached_property
    def acts_by_source(self) -> bool:
        """True when there are NOT MATCHED BY SOURCE clauses."""
        return not self.command.notMatchedBySourceClauses().isEmpty()

    @cached_property
    def by_source_predicate(self) -> JavaObject | None:
        """Rows of the target on which a NOT MATCHED BY SOURCE clause can act; None if none can."""
        clauses = items(self.command.notMatchedBySourceClauses())
        expressions = self._jvm.root.org.apache.spark.sql.catalyst.expressions
        conditions = [optional(clause.condition()) for clause in clauses]
        if not conditions:
            return None
        if None in conditions:
            return literal(self._jvm, True)
        return balanced(conditions, expressions.Or)

    @cached_property
    def part_by_source(self) -> bool:
        """True when every NOT MATCHED BY SOURCE clause has a condition, and there is one."""
        clauses = items(self.command.notMatchedBySourceClauses())
        return bool(clauses) and all(optional(c.condition()) is not None for c in clauses)

    @cached_property
    def target_keys(self) -> tuple[Column, ...]:
        """The columns of the target that ON reads."""
        read = self.command.condition().references()
        return tuple(
            self._bound(a) for a in items(self.command.target().output()) if read.contains(a)
        )

    @property
    def source(self) -> DataFrame:
        """The resolved source: its `now()` is the same as in the clauses."""
        return self._jvm.rows_of(self.command.source())

    @cached_property
    def has_equal_keys(self) -> bool:
        """True when a conjunct of ON is an equality."""
        conjuncts = items(self.command.splitConjunctivePredicates(self.command.condition()))
        return any(class_name(conjunct) in ("EqualTo", "EqualNullSafe") for conjunct in conjuncts)

    @cached_property
    def source_reads_target(self) -> bool:
        """True when the source or a clause's value reads the target table.

        Such a source must be read inside the merge's transaction: otherwise, the merge would
        overwrite a concurrent commit without a conflict.
        """
        source = self.command.source()
        # Values of clauses may contain subqueries; conditions may not.
        queries = [*items(source.subqueriesAll()), *items(self.command.subqueriesAll())]
        plans = [source, *queries]
        return any(
            _delta_path(leaf) == self.target.path
            for plan in plans
            for leaf in items(plan.collectLeaves())
        )

    @cached_property
    def key_pairs(self) -> list[KeyPair]:
        """The conjuncts of ON in which a target column equals an expression over the source.

        Only columns with ranges of values: integers, decimals, dates and text. If the sides
        differ in type, the analyser has put a cast around the column.
        """
        # Computed columns have no statistics: CHAR is padded only when it is read.
        stored = [leaf.outputSet() for leaf in items(self.command.target().collectLeaves())]
        source = self.command.source().outputSet()
        pairs = []
        for conjunct in items(self.command.splitConjunctivePredicates(self.command.condition())):
            if class_name(conjunct) != "EqualTo":
                continue
            sides = (conjunct.left(), conjunct.right())
            for side, value in (sides, sides[::-1]):
                column, is_exact = _behind_casts(side)
                read = value.references()
                if (
                    class_name(column) == "AttributeReference"
                    and any(columns.contains(column) for columns in stored)
                    and not read.isEmpty()
                    and read.subsetOf(source)
                    and value.deterministic()
                    and is_exact
                    and _type(column).is_ranged
                ):
                    pairs.append(KeyPair(column, value, _type(column), _type(side)))
        return pairs

    def with_source(self, rows: DataFrame) -> "MergePlan":
        """Return the same merge of other rows, with the source's attributes or some of them."""
        return self._with(source=rows._jdf.queryExecution().analyzed())

    def with_predicate(self, predicate: JavaObject) -> "MergePlan":
        """Return the same merge with one more conjunct in ON."""
        both = self._jvm.root.org.apache.spark.sql.catalyst.expressions.And(
            self.command.condition(), predicate
        )
        return self._with(condition=both)

    def predicate(self, within: Sequence[tuple[KeyPair, Sequence[KeyRange]]]) -> JavaObject:
        """Compose a predicate on the target's columns, with literals of the columns' own types.

        Args:
            within: Key -> the ranges of its values; if a key has none, nothing matches.

        A literal in a cast would exclude no file, nor would BETWEEN: Delta's skipping uses only
        comparisons with bare literals.
        """
        if not all(ranges for _, ranges in within):
            return literal(self._jvm, False)
        conjuncts = [self._is_within(pair, ranges) for pair, ranges in within]
        target = self._jvm.rows_of(self.command.target()).filter(balanced(conjuncts, and_))
        # A decimal's literal has the type of its own digits, so the analyser casts it.
        folding = self._jvm.object("org.apache.spark.sql.catalyst.optimizer.ConstantFolding")
        return folding.apply(target._jdf.queryExecution().analyzed()).condition()

    def _is_within(self, pair: KeyPair, ranges: Sequence[KeyRange]) -> Column:
        points = [r.low for r in ranges if r.low == r.high]
        wide = [r for r in ranges if r.low != r.high]
        listed = self.target.is_partitioned_by(pair.name)
        if pair.type.is_whole and not listed:  # SQL text takes one round trip, a Column six each
            name, suffix = quoted(pair.name), _SUFFIXES[pair.type.name]
            texts = [f"({name} >= {r.low}{suffix} AND {name} <= {r.high}{suffix})" for r in wide]
            return F.expr(" OR ".join([*texts, *(f"{name} = {key}{suffix}" for key in points)]))
        column = self._bound(pair.column)
        parts = [
            (column >= _literal(pair, r.low)) & (column <= _literal(pair, r.high)) for r in wide
        ]
        equal = [_literal(pair, point) for point in points]
        if listed and equal:
            parts.append(column.isin(*equal))
        else:  # for a list, skipping uses only the smallest and the largest value
            parts += [column == point for point in equal]
        return balanced(parts, or_)

    def candidates(self, predicate: JavaObject) -> int:
        """Count the target's files that may contain matches, by a predicate from `predicate`."""
        found = self.target.snapshot.filesForScan(self.conjuncts(predicate), False)
        return int(found.files().size())

    def conjuncts(self, predicate: JavaObject) -> JavaObject:
        """Split a predicate as Delta needs it: each part reads only partitions or only columns."""
        return self.command.splitConjunctivePredicates(predicate)

    @property
    def source_bytes(self) -> int:
        """Spark's estimate of the source's size in bytes; very large if nothing is known."""
        try:
            return int(self.command.source().stats().sizeInBytes())
        except SPARK_FAILURES:
            return sys.maxsize

    def run(self, metrics: Sequence[str]) -> tuple[Row | None, dict[str, int]]:
        """Run the merge.

        Args:
            metrics: Names of metrics of the command.

        Returns:
            Delta's row of counts, and those metrics.
        """
        with active(self._jvm.spark):
            frame = self._jvm.rows_of(self.command)
            row = frame.first()
            # Analysis copies the command; the metrics are those of the copy that ran.
            ran = frame._jdf.queryExecution().commandExecuted().commandPhysicalPlan().metrics()
            return row, {name: int(ran.apply(name).value()) for name in metrics}

    def _with(
        self, *, source: JavaObject | None = None, condition: JavaObject | None = None
    ) -> "MergePlan":
        old = self.command
        changed = self._jvm.delta.commands.MergeIntoCommand(
            old.source() if source is None else source,
            old.target(),
            old.catalogTable(),
            old.targetFileIndex(),
            old.condition() if condition is None else condition,
            old.matchedClauses(),
            old.notMatchedClauses(),
            old.notMatchedBySourceClauses(),
            old.migratedSchema(),
            old.trackHighWaterMarks(),
            old.schemaEvolutionEnabled(),
        )
        return MergePlan(self._jvm, changed, self.target)

    def _clause(self, clause: JavaObject) -> PlannedClause:
        kinds = {"Update": "update", "Delete": "delete", "Insert": "insert"}
        kind = next(v for k, v in kinds.items() if k in class_name(clause))
        condition = optional(clause.condition())
        values = Values(self._jvm, clause.resolvedActions())
        return PlannedClause(
            kind,
            None if condition is None else self._bound(condition),
            values,
            reads_target=not values.come_from(self.command.source()),
        )

    def _bound(self, expression: JavaObject) -> Column:
        return bound(self._jvm, expression)

    def expressions(self) -> list[JavaObject]:
        """All expressions: ON, and every condition and value of the clauses."""
        found = [self.command.condition()]
        for clause in (
            *items(self.command.matchedClauses()),
            *items(self.command.notMatchedClauses()),
            *items(self.command.notMatchedBySourceClauses()),
        ):
            condition = optional(clause.condition())
            found += [] if condition is None else [condition]
            found += [action.expr() for action in items(clause.resolvedActions())]
        return found


def _literal(pair: KeyPair, value: Key) -> Column:
    """A bare literal of the column's type; Python has only one type of integer."""
    if isinstance(value, date):
        return date_literal(value)
    return F.expr(f"{value}{_SUFFIXES[pair.type.name]}") if pair.type.is_whole else F.lit(value)


def _type(expression: JavaObject) -> KeyType:
    return KeyType.of(str(expression.dataType().typeName()))


def _behind_casts(expression: JavaObject) -> tuple[JavaObject, bool]:
    """Remove the casts around an expression; also return whether they keep values different."""
    is_exact = True
    while class_name(expression) == "Cast":
        is_exact &= _type(expression.child()).widens_to(_type(expression))
        expression = expression.child()
    return expression, is_exact


def literal(jvm: Jvm, value: bool) -> JavaObject:
    """A predicate that is true, or false, for every file and row."""
    boolean = jvm.object("org.apache.spark.sql.types.BooleanType")
    return jvm.root.org.apache.spark.sql.catalyst.expressions.Literal.create(value, boolean)


def _delta_path(leaf: JavaObject) -> str | None:
    index = delta_index(leaf)
    return None if index is None else str(index.deltaLog().dataPath().toString())
