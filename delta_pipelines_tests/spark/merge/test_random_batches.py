"""Random batches into random tables: every merge by an own executor and by Delta, again and again.

A table holds hundreds of keys, and each of them has a history: inserted, changed, left alone,
deleted, inserted again. What differs between the two tables after a merge is a difference in some
key's history. Hypothesis chooses the table, the clauses and how the batches lie, so that it can
leave out what a failure does not need; their many rows come from one number each.
"""

import math
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_pipelines.merge import merge_into
from delta_pipelines.merge.attempt import MergeAttempt
from delta_pipelines_tests.spark.merge.oracle import (
    LAYOUTS,
    When,
    by_source_delete,
    by_source_update,
    check_log,
    create,
    delete,
    insert,
    last_version,
    update,
)
from delta_pipelines_tests.spark.merge.table_log import (
    check_no_orphans,
    check_statistics,
    read_by_file,
)
from delta_pipelines_tests.support.table_reader import newest_rows

KEYS = 500
EPOCH = datetime(2026, 11, 22, tzinfo=timezone.utc)
ODD_TEXTS = ("", "'", "`", "\\", "%", "a b", "A b", "é", "e\u0301", "😀")

VALUES = {
    "INT": lambda r: r.choice([0, -1, 2**31 - 1, r.randrange(9)]),
    "BIGINT": lambda r: r.choice([0, -(2**63), r.randrange(9)]),
    "DOUBLE": lambda r: r.choice([0.0, -0.0, math.nan, math.inf, -math.inf, r.random()]),
    "DECIMAL(20,5)": lambda r: Decimal(r.randrange(-(10**9), 10**9)).scaleb(-5),
    "STRING": lambda r: r.choice(
        ["", "a", "A", "é", "e\u0301", "😀", "\u0000", "'\"`", str(r.random())]
    ),
    "BINARY": lambda r: bytearray(r.randrange(256) for _ in range(r.randrange(3))),
    "DATE": lambda r: date(1600, 1, 1) + timedelta(days=r.randrange(200_000)),
    "TIMESTAMP": lambda r: EPOCH + timedelta(microseconds=r.randrange(-(10**15), 10**15)),
    "TIMESTAMP_NTZ": lambda r: datetime(1900, 1, 1) + timedelta(microseconds=r.randrange(10**16)),
    "FLOAT": lambda r: r.choice([0.0, -0.0, math.nan, math.inf, 0.5, -1.25]),
    "SMALLINT": lambda r: r.choice([0, -(2**15), r.randrange(9)]),
    "BOOLEAN": lambda r: r.random() < 0.5,
    "STRUCT<x: INT, y: ARRAY<STRING>>": lambda r: (
        r.choice([None, 1, 2]),
        r.choice([None, [], ["a", None]]),
    ),
    "ARRAY<DOUBLE>": lambda r: r.choice([[], [None], [0.0, -0.0, math.nan]]),
}
KEY_TYPES = {
    "INT": lambda n: n - 100,
    "BIGINT": lambda n: n * 2**40,
    "DOUBLE": lambda n: [math.nan, math.inf, -0.0][n] if n < 3 else n / 7,
    "DECIMAL(20,5)": lambda n: Decimal(n).scaleb(-3),
    "STRING": lambda n: (
        ["", "'", "`", "\\", "%", "a b", "A b", "é", "e\u0301"][n] if n < 9 else f"k{n}"
    ),
    "BINARY": lambda n: bytearray(n.to_bytes(3, "big")),
    "DATE": lambda n: date(1500, 1, 1) + timedelta(days=n * 400),
    "TIMESTAMP": lambda n: EPOCH + timedelta(microseconds=n - 250),
    "TIMESTAMP_NTZ": lambda n: datetime(1969, 12, 31) + timedelta(minutes=n * 7),
    "STRUCT<a: INT, b: STRING>": lambda n: (n, None if n % 3 else "x"),
}
MATCHED = st.sampled_from(
    [
        delete("s.op = 'd'"),
        delete("s.op = 'd' AND t.n > 3"),
        update("s.n >= t.n OR t.n IS NULL", n="s.n", v="s.v"),
        update("s.op = 'u'", v="s.v"),
        update("t.g < 2", n="coalesce(s.n, -t.g)", op="concat(t.op, s.op)"),
        update("s.n <> t.n"),
    ]
)
ALL_MATCHED = st.sampled_from([(), (), (delete(),), (update(),), (update(n="s.n", v="s.v"),)])
NOT_MATCHED = st.sampled_from(
    [
        (),
        (insert(),),
        (insert("s.op <> 'd'"),),
        (insert("s.n > 2"), insert("s.op = 'u'", k="s.k", g="s.g", n="-s.n")),
    ]
)
BY_SOURCE = st.sampled_from(
    [
        *((), (), (), ()),
        (by_source_delete("t.g = 3"),),
        (by_source_update("t.g < 2", n="-t.g", v="t.v"),),
        (by_source_delete("t.n = 1"), by_source_update("t.g = 4", op="'x'")),
    ]
)


@dataclass(frozen=True)
class Table:
    """What a table is like."""

    layout: str
    key_type: str
    value_type: str
    two_keys: bool
    counts_pairs: bool
    """Every match is counted as one of very many."""

    @property
    def columns(self) -> str:
        return f"g INT, k {self.key_type}, op STRING, n INT, v {self.value_type}"

    @property
    def on(self) -> str:
        return "t.k = s.k AND t.g <=> s.g" if self.two_keys else "t.k = s.k"

    def rows(self, seed: int, share: float) -> list[tuple[object, ...]]:
        """A part of the keys, each once, and a few rows without one: NULL matches nothing."""
        r = random.Random(seed)
        chosen = [n for n in range(KEYS) if r.random() < share]
        rows = [self._row(r, n, KEY_TYPES[self.key_type](n)) for n in chosen]
        return rows + [self._row(r, 0, None) for _ in range(r.randrange(3))]

    def _row(self, r: random.Random, number: int, key: object) -> tuple[object, ...]:
        group = None if number % 11 == 0 else number % 5
        value = None if r.random() < 0.2 else VALUES[self.value_type](r)
        return (group, key, r.choice("ud"), r.choice([None, r.randrange(9)]), value)


@dataclass(frozen=True)
class Batch:
    """One merge."""

    clauses: tuple[When, ...]
    share: float
    seed: int
    is_forced: bool

    @property
    def executor(self) -> str:
        inserts = all(clause.kind == "NOT MATCHED" for clause in self.clauses)
        return "auto" if not self.is_forced else "insert_only" if inserts else "classic"


TABLES = st.builds(
    Table,
    layout=st.sampled_from(LAYOUTS),
    key_type=st.sampled_from(list(KEY_TYPES)),
    value_type=st.sampled_from(list(VALUES)),
    two_keys=st.booleans(),
    counts_pairs=st.booleans(),
)
CLAUSES = st.builds(
    lambda matched, last, new, by_source: (*matched, *last, *new, *by_source),
    st.lists(MATCHED, max_size=2, unique_by=repr),
    ALL_MATCHED,
    NOT_MATCHED,
    BY_SOURCE,
).filter(bool)
BATCHES = st.builds(
    Batch,
    clauses=CLAUSES,
    share=st.sampled_from([0.01, 0.1, 0.6]),
    seed=st.integers(0, 2**32),
    is_forced=st.sampled_from([True, True, False]),
)


@pytest.mark.parametrize(
    ("tables", "merges"), [(3, 3), pytest.param(20, 15, marks=pytest.mark.soak)]
)
@pytest.mark.timeout(7200)
def test_random_merges_leave_what_delta_leaves(
    spark, tmp_path_factory, tables, merges, record_property
):
    done: Counter[str] = Counter()

    @settings(
        max_examples=tables,
        deadline=None,
        derandomize=tables < 10,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(TABLES, st.lists(BATCHES, min_size=merges, max_size=merges))
    def hold(table: Table, batches: list[Batch]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if table.counts_pairs:
                patch.setattr(MergeAttempt, "FEW_PAIRS", 0)
            done.update(both_ways(spark, tmp_path_factory.mktemp("random"), table, batches))
        done["tables"] += 1

    hold()
    own_merges = done["classic"] + done["insert_only"]
    assert own_merges >= tables * merges // 2, done
    record_property(
        "proved",
        f"random merges: {done['merges']} of {done['tables']} tables of {KEYS} key histories, "
        f"{own_merges} by our executors, {done['unchanged']} that changed nothing, "
        f"0 differences; {done['statistics']} statistics compared with their rows",
    )


def both_ways(spark, folder, table: Table, batches: list[Batch]) -> Counter[str]:
    """Do all merges twice; count them, and the statistics of files that were looked at."""
    done: Counter[str] = Counter()
    first = table.rows(batches[0].seed + 1, 0.5)
    ours = create(spark, folder / "t", table.columns, first, table.layout, files=4)
    theirs = f"{ours}_theirs"
    shutil.copytree(ours, theirs)
    for batch in batches:
        source = spark.createDataFrame(table.rows(batch.seed, batch.share), table.columns)
        source.createOrReplaceTempView("oracle_source")
        whens = " ".join(clause.sql for clause in batch.clauses)
        spark.sql(
            f"MERGE INTO delta.`{theirs}` t USING oracle_source s ON {table.on} {whens}"
        ).collect()
        builder = merge_into(spark, ours, source, table.on, executor=batch.executor)
        for clause in batch.clauses:
            builder = clause.add(builder)
        before = last_version(ours)
        result = builder.execute()
        description = f"{table}, {batch}: {result}"
        by_file = read_by_file(spark, ours)
        expected = newest_rows(spark, theirs)
        counted = Counter(repr(row) for rows in by_file.values() for row in rows)
        assert counted == Counter(map(repr, expected)), description
        done.update({result.executor: 1, "merges": 1})
        if last_version(ours) == before:
            done["unchanged"] += 1
        elif result.executor != "native":
            check_log(spark, ours, len(expected))
            check_no_orphans(spark, ours)
            done["statistics"] += check_statistics(ours, by_file)
    return done
