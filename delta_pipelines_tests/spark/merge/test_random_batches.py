"""Random batches into random tables: every merge by an own executor and by Delta, again and again.

A table holds hundreds of keys, and each of them has a history: inserted, changed, left alone,
deleted, inserted again. What differs between the two tables after a merge is a difference in some
key's history.
"""

import math
import random
import shutil
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from delta_pipelines.merge import merge_into, own
from delta_pipelines_tests.spark.merge.oracle import (
    LAYOUTS,
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
    "STRUCT<a: INT, b: STRING>": lambda n: (n, None if n % 3 else "x"),
}
CLAUSES = {
    "upsert": [update(), insert()],
    "changes": [delete("s.op = 'd'"), update(), insert("s.op <> 'd'")],
    "newer": [update("s.n >= t.n OR t.n IS NULL", n="s.n", v="s.v"), insert()],
    "delete": [delete()],
    "insert": [insert()],
    "partly": [delete("s.op = 'd' AND t.n > 3"), update("s.op = 'u'", v="s.v"), insert("s.n > 2")],
    "mirror of a part": [update(), insert(), by_source_delete("t.g = 3")],
    "marked": [update(n="s.n"), by_source_update("t.g < 2", n="-t.g", v="t.v")],
}


class Batches:
    """The rows of one table's merges.

    Args:
        seed: Decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.key_type = self.random.choice(list(KEY_TYPES))
        self.value_type = self.random.choice(list(VALUES))
        self.two_keys = self.random.random() < 0.4
        self.columns = f"g INT, k {self.key_type}, op STRING, n INT, v {self.value_type}"

    @property
    def on(self) -> str:
        return "t.k = s.k AND t.g <=> s.g" if self.two_keys else "t.k = s.k"

    def rows(self, share: float) -> list[tuple[object, ...]]:
        r = self.random
        chosen = [n for n in range(KEYS) if r.random() < share]
        rows = [self._row(n, KEY_TYPES[self.key_type](n)) for n in chosen]
        return rows + [self._row(0, None) for _ in range(r.randrange(3))]  # NULL matches nothing

    def _row(self, number: int, key: object) -> tuple[object, ...]:
        r = self.random
        group = None if number % 11 == 0 else number % 5
        value = None if r.random() < 0.2 else VALUES[self.value_type](r)
        return (group, key, r.choice("ud"), r.choice([None, r.randrange(9)]), value)


@pytest.mark.parametrize(
    ("seed", "merges"),
    [(3, 6), (12, 6), *(pytest.param(n, 15, marks=pytest.mark.soak) for n in range(200, 220))],
)
@pytest.mark.timeout(3600)
def test_random_merges_leave_what_delta_leaves(
    spark, tmp_path, seed, merges, record_property, monkeypatch
):
    if seed % 2:  # every match is counted as one of very many
        monkeypatch.setattr(own, "FEW_PAIRS", 0)
    batches = Batches(seed)
    layout = batches.random.choice(LAYOUTS)
    ours = create(spark, tmp_path / "t", batches.columns, batches.rows(0.5), layout, files=4)
    theirs = f"{ours}_theirs"
    shutil.copytree(ours, theirs)
    executors: Counter[str] = Counter()
    compared = 0
    for number in range(merges):
        name = batches.random.choice(list(CLAUSES))
        share = batches.random.choice([0.01, 0.1, 0.6])
        source = spark.createDataFrame(batches.rows(share), batches.columns)
        source.createOrReplaceTempView("oracle_source")
        whens = " ".join(clause.sql for clause in CLAUSES[name])
        spark.sql(
            f"MERGE INTO delta.`{theirs}` t USING oracle_source s ON {batches.on} {whens}"
        ).collect()
        fitting = "insert_only" if name == "insert" else "classic"
        executor = fitting if number % 3 else "auto"
        builder = merge_into(spark, ours, source, batches.on, executor=executor)
        for clause in CLAUSES[name]:
            builder = clause.add(builder)
        before = last_version(ours)
        result = builder.execute()
        executors[result.executor] += 1
        told = f"seed {seed}, {layout}, {batches.columns}, {name}: {result}"
        by_file = read_by_file(spark, ours)
        expected = spark.read.format("delta").load(theirs).collect()
        counted = Counter(repr(row) for rows in by_file.values() for row in rows)
        assert counted == Counter(repr(tuple(row)) for row in expected), told
        if last_version(ours) > before and result.executor != "native":
            check_log(spark, ours, len(expected))
            check_no_orphans(spark, ours)
            compared += check_statistics(ours, by_file)
    assert executors["classic"] + executors["insert_only"] >= merges * 2 // 3, executors
    record_property(
        "proved",
        f"random merges: seed {seed}, {merges} merges of {KEYS} key histories, {layout}, "
        f"{dict(executors)}, 0 differences; {compared} statistics compared with their rows",
    )
