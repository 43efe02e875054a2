"""Decide which partitions of a table a refresh would not change; runs no query."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.log.changed_files import changed_files
from delta_pipelines.delta.log.data_versions import recorded_entry
from delta_pipelines.delta.query.files_read import files_read
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Graph, Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.partition_range import neighbours
from delta_pipelines.model.partitions import Partitions
from delta_pipelines.model.schema_mapping import column_named
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.partitions.partition_query import query_of_range, range_of
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.dependency_trace import tables_behind
from delta_pipelines.planning.skipping.skip_decision import judge, judge_overtaken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_NOT_FRESH = "they are new, or stale since an earlier change"
MOST_CHECKS = 40
"""Most queries that are planned to find what changed files touch; what is undecided is stale."""


@dataclass(frozen=True)
class DividedQuery:
    """The query of a table with partitions, and the inputs that a run reads.

    Args:
        spark: The session to copy.
        table: As declared.
        flow: Its flow.
        by: How its rows are divided.
        column_type: Type of the column that divides them, as SQL writes it.
        state_of: Returns an input at the version that the run reads.
    """

    spark: "SparkSession"
    graph: Graph
    table: Table
    flow: Flow
    by: Partitions
    column_type: str
    state_of: Callable[[Identifier], TableState | None]

    @property
    def inputs(self) -> dict[Identifier, TableState]:
        """The tables and sources behind it, at the versions that the run reads."""
        behind = sorted(tables_behind(self.graph, self.table.identifier), key=str)
        states = {identifier: self.state_of(identifier) for identifier in behind}
        return {identifier: state for identifier, state in states.items() if state is not None}

    def files_of(
        self, keys: tuple[str, ...], versions: Mapping[Identifier, int]
    ) -> frozenset[str] | None:
        """The names of the files that it reads for some partitions; None when unknown.

        Args:
            versions: The version of each input.
        """
        states = self.inputs

        def at(session: "SparkSession", identifier: Identifier) -> "DataFrame":
            reader = session.read.format("delta").option("versionAsOf", versions[identifier])
            return reader.load(states[identifier].location)

        partition = range_of(self.table, self.by, keys, self.column_type)
        try:
            frame = query_of_range(self.spark, self.graph, self.flow, partition, at)
            return files_read(frame)
        except (*SPARK_FAILURES, DatasetError, KeyError) as error:
            log.debug("%s: files of %s are unknown: %s", self.table.identifier, partition, error)
            return None


@dataclass(frozen=True)
class Fresh:
    """The partitions that a run need not compute.

    Args:
        keys: Their keys.
        why: Why it computes the others; the part of a sentence after "because".
        newer: Those among `keys` that another run computed from later versions of the inputs. This
            run does not bring back their older rows, and must not record them as fresh.
    """

    keys: frozenset[str]
    why: str
    newer: frozenset[str] = frozenset()


def fresh_partitions(
    query: DividedQuery, last: LastWrite, now: Dependencies | None, every: Sequence[str]
) -> Fresh:
    """Find the partitions that a refresh would not change, and say why it would change the others.

    If only versions of input tables changed, partitions stay fresh for which the query reads no
    changed file, as Delta's file skipping says. The column that divides the rows, where an input
    has it, and else halving show which partitions to ask about.

    Args:
        query: The query, with its inputs now.
        last: The commit that last changed the table's rows.
        now: The dependencies of a refresh now; None when they are unknown.
        every: All partitions, in order.
    """
    recorded = query.by.expanded(every, last.fresh) if last.ours else frozenset()
    verdict = judge(last, now)
    if verdict.unchanged:
        return Fresh(recorded, _NOT_FRESH)
    before = last.dependencies
    if not recorded or before is None or now is None:
        return Fresh(frozenset(), verdict.reason)
    differ_by_versions = judge(last, replace(now, tables=before.tables)).unchanged
    if judge_overtaken(last, now) is not None:
        same = _same_rows(query, now, before, every, recorded) if differ_by_versions else ()
        return Fresh(recorded, _NOT_FRESH, newer=recorded.difference(same))
    if not differ_by_versions:
        return Fresh(frozenset(), verdict.reason)
    return Fresh(_same_rows(query, before, now, every, recorded), verdict.reason)


def _same_rows(
    query: DividedQuery,
    before: Dependencies,
    now: Dependencies,
    every: Sequence[str],
    keys: frozenset[str],
) -> frozenset[str]:
    """The partitions among `keys` for which the query reads no file that changed in between."""
    changes = _Changes.between(query, before, now, every)
    return frozenset() if changes is None else changes.untouched(keys - changes.touched)


class _Changes:
    """The changed files of a query's inputs since the last refresh."""

    def __init__(self, query: DividedQuery, every: Sequence[str]) -> None:
        self.touched: set[str] = set()
        self._query = query
        self._every = every
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self._now = {identifier: state.version for identifier, state in query.inputs.items()}
        self._before = dict(self._now)
        self._checks = MOST_CHECKS

    @classmethod
    def between(
        cls, query: DividedQuery, before: Dependencies, now: Dependencies, every: Sequence[str]
    ) -> "_Changes | None":
        """Read the commits in between; None when it is unknown what changed."""
        found = cls(query, every)
        inputs = {str(s.identifier.plain): (i, s) for i, s in query.inputs.items()}
        if now.tables.keys() != before.tables.keys():
            return None
        for name, new in now.tables.items():
            old = before.tables[name]
            if old == new:
                continue
            if name not in inputs or old.table_id != new.table_id or old.version >= new.version:
                return None
            identifier, state = inputs[name]
            entry = recorded_entry(query.spark, state.log_end, old.version)
            if entry is None or entry.commit != old.commit:
                return None
            if not found._read(identifier, state, old.version, new.version):
                return None
        return found

    def _read(self, identifier: Identifier, state: TableState, since: int, until: int) -> bool:
        by = self._query.by
        column = column_named(state.schema, by.column)
        kind = column.dataType.simpleString() if column else ""
        changes = changed_files(self._query.spark, state, since, until, by.column)
        if changes is None:
            return False
        self._before[identifier], self._now[identifier] = changes.before, until
        for file in changes.files:
            (self._added if file.added else self._removed).add(file.name)
            if file.bounds is not None and kind in by.types:
                with suppress(ValueError):
                    self.touched.update(by.touched(self._every, *file.bounds, kind))
        return True

    def untouched(self, keys: frozenset[str]) -> frozenset[str]:
        """The partitions among `keys` for which the query reads no changed file."""
        runs = neighbours(self._every, keys)
        return frozenset(key for run in runs for key in self._unread(run))

    def _unread(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        if self._checks == 0:
            return ()
        self._checks -= 1
        read = self._changed_part(keys)
        if read == 0:
            return keys
        if read == 1 or len(keys) == 1:
            return ()
        half = len(keys) // 2
        return (*self._unread(keys[:half]), *self._unread(keys[half:]))

    def _changed_part(self, keys: tuple[str, ...]) -> float:
        """Which part of the files that the query reads for some partitions changed, 0 to 1."""
        part = 0.0
        for versions, changed in ((self._now, self._added), (self._before, self._removed)):
            read = self._query.files_of(keys, versions) if changed else frozenset()
            if read is None:
                return 1
            part = max(part, len(read & changed) / max(1, len(read)))
        return part
