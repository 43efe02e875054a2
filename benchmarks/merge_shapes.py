"""Shapes of merges that the shared cases lack: few rows, replays, random keys, skew, many files.

Rows are made by Spark from a seed. Every shape runs on a table with deletion vectors, those marked
so on a copy-on-write table too; an upsert is `update_all` and `insert_all`, by key. Shapes of 20
million rows run when `DELTA_PIPELINES_BENCHMARK_CASES` names them (`20 M`);
`DELTA_PIPELINES_BENCHMARK_ROWS` makes all targets smaller, for a try.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.fresh_copies import (
    OURS,
    SLOWEST,
    UPSERT,
    Clauses,
    Merge,
    by_delta,
    by_merge_into,
    checksum,
    chosen,
    cut,
    floors,
    race,
)
from benchmarks.timing import Contest, console
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WIDE = ", ".join(f"pmod(xxhash64(id, {n}), 1000) AS c{n}" for n in range(20))
_SOME = "pmod(xxhash64(id, 99), 1000) < {}"
_FEWEST_FILES = 4
RIVAL = "delta-rs"


@dataclass(frozen=True)
class Shape:
    """One shape; `{rows}` in its SQL stands for the number of rows.

    Args:
        name: Its name.
        rows: Rows of the target.
        files: Its files.
        key: Key of row `id`, as SQL; `uuid` for a random one.
        batch: Condition on `id` that says which rows come again, changed.
        new: How many rows are new.
        columns: Further columns, as SQL over `id`.
        clauses: What the merge does.
        faster: How many times as fast as Delta it is to be with deletion vectors, if that is asked.
        faster_plain: The same without.
        plain: Also without deletion vectors.
        skips: `merge_into` skips what is unchanged; a third way asks Delta to compare.
        same: Condition on `id` for rows of the batch that come unchanged.
        partition: Partition column of the target; ON has it too.
        events: How many rows a key of the batch has, of which the one with the greatest `n` counts;
            every twentieth comes twice.
        rival: On a copy-on-write table delta-rs runs too.
        by_default: It runs when no shape is named.
    """

    name: str
    rows: int
    files: int
    key: str
    batch: str
    new: int
    columns: str = _WIDE
    clauses: Clauses = UPSERT
    faster: float | None = None
    faster_plain: float | None = None
    plain: bool = False
    skips: bool = False
    same: str = "false"
    partition: str = ""
    events: int = 0
    rival: bool = False
    by_default: bool = True

    @property
    def on(self) -> str:
        """The condition of the merge."""
        return " AND ".join(f"t.{name} = s.{name}" for name in ("k", self.partition) if name)

    def at_size(self) -> "Shape":
        """The shape with as many rows as are to be, and everything else in proportion."""
        rows = cut(self.rows)
        return replace(
            self,
            rows=rows,
            files=max(min(self.files, _FEWEST_FILES), self.files * rows // self.rows),
            new=-(-self.new * rows // self.rows),
            batch=self.batch.replace("{rows}", str(rows)),
            columns=self.columns.replace("{rows}", str(rows)),
        )


_EVERYWHERE = Shape(
    "everywhere 20 k + 10 k",
    *(2_000_000, 100, "uuid", _SOME.format(10), 10_000),
    faster=2.5,
    faster_plain=1.7,
    plain=True,
    rival=True,
)
_CLUSTERED = Shape(
    "C clustered 1 %, few files",
    *(2_000_000, 64, "id", "id >= {rows} * 0.25 AND id < {rows} * 0.26", 0),
    faster_plain=2,
    plain=True,
)
SHAPES = (
    Shape(
        "10 rows into one file",
        *(10_000, 1, "id", "id < 5", 5),
        faster=2.5,
        faster_plain=2.5,
        plain=True,
    ),
    Shape("A tail of 8 files", 1_000_000, 8, "id", "id >= {rows} * 0.999", 500),
    Shape(
        "B random UUIDs 1 %",
        *(2_000_000, 32, "uuid", _SOME.format(10), 5_000),
        faster=2.5,
        faster_plain=1.7,
        plain=True,
    ),
    _CLUSTERED,
    _EVERYWHERE,
    Shape(
        "insert only, half new",
        *(2_000_000, 100, "id", _SOME.format(5), 10_000),
        clauses=(("insert", ""),),
        faster=1.7,
        faster_plain=1.7,
        plain=True,
    ),
    Shape(
        "insert only, 50 k rows everywhere into 50 files",
        *(1_000_000, 50, "id", _SOME.format(25), 25_000),
        clauses=(("insert", ""),),
    ),
    Shape(
        "D replay",
        *(1_500_000, 16, "id", _SOME.format(50), 0),
        faster=4,
        skips=True,
        same="true",
    ),
    Shape(
        "E changes, three a key",
        *(2_000_000, 16, "id", _SOME.format(14), 12_000),
        clauses=(("delete", "s.op = 'D'"), ("update", ""), ("insert", "s.op <> 'D'")),
        events=3,
    ),
    Shape(
        "F 100 % matched, 1 % differs",
        *(2_000_000, 16, "id", "true", 0),
        columns="pmod(id, 7) AS c0, cast(id AS STRING) AS c1, id * 1.5 AS c2",
        skips=True,
        same="pmod(xxhash64(id, 5), 100) > 0",
    ),
    Shape("G skew", 2_000_000, 32, "id", f"id < {{rows}} / 32 AND {_SOME.format(400)}", 1_000),
    Shape(
        "H wide",
        *(300_000, 16, "id", _SOME.format(20), 0),
        columns=", ".join(f"pmod(xxhash64(id, {n}), 1000) AS c{n}" for n in range(200)),
    ),
    Shape(
        "I 2,000 files",
        *(1_000_000, 2_000, "id", "id >= {rows} * 0.003 AND id < {rows} * 0.004", 0),
    ),
    Shape(
        "one partition of ten, the rest of it deleted",
        *(2_000_000, 300, "id", f"pmod(id, 10) = 3 AND {_SOME.format(990)}", 2_000),
        columns=f"{_WIDE}, CASE WHEN id < {{rows}} THEN pmod(id, 10) ELSE 3 END AS part",
        clauses=(*UPSERT, ("delete by source", "t.part = 3")),
        faster=3,
        faster_plain=3,
        plain=True,
        partition="part",
    ),
    replace(
        _EVERYWHERE,
        name="20 M rows, all files",
        rows=20_000_000,
        new=100_000,
        faster=3,
        plain=False,
        by_default=False,
    ),
    replace(
        _CLUSTERED, name="20 M rows, few files", rows=20_000_000, plain=False, by_default=False
    ),
)
_LONG = Shape("J thirty merges in a row", 2_000_000, 32, "uuid", "", 1_000)
_MERGES_A_ROUND = 6
_UPKEEP_EVERY = 5


def run(rounds: int = 5) -> list[Contest]:
    """Time all shapes, and thirty merges in a row.

    Args:
        rounds: Rounds that count; the long row has six merges for each.
    """
    contests = []
    with warm_session(spark__driver__memory="6g") as (spark, folder):
        for number, full in enumerate(SHAPES):
            for vectors in (True, False) if full.plain else (True,):
                layout = "deletion vectors" if vectors else "copy on write"
                name = f"{full.name}, {layout}"
                if chosen(name, by_default=full.by_default):
                    place = folder / f"shape-{number}-{vectors}"
                    contests += _timed(spark, full.at_size(), name, place, rounds, vectors)
        if chosen(_LONG.name):
            contests += _in_a_row(spark, folder / "long", _LONG.at_size(), rounds)
    return contests


def _timed(
    spark: "SparkSession", shape: Shape, name: str, place: Path, rounds: int, vectors: bool
) -> list[Contest]:
    target, source = place / "target", str(place / "source")
    _write(spark, shape, target, vectors=vectors)
    _batch(spark, shape).write.format("delta").save(source)
    ways = _ways(spark, shape, source)
    compared = shape.rival and not vectors
    if compared:
        ways[RIVAL] = lambda copy: delta_rs(copy, source)
    writes_all = shape.clauses == UPSERT and not shape.skips
    rewrites = writes_all and not vectors and shape.key == "uuid"
    contest = race(
        spark,
        name,
        target,
        ways,
        rounds,
        faster=shape.faster if vectors else shape.faster_plain,
        beside=floors(spark, ["k"], source if writes_all else "", rewrites=rewrites),
        idle=[OURS] if shape.same == "true" else [],
    )
    shutil.rmtree(place)
    return [contest, contest.against(RIVAL, {OURS: 1.0})] if compared else [contest]


def _rows(spark: "SparkSession", shape: Shape, end: int) -> "DataFrame":
    key = "substr(sha2(cast(id AS STRING), 256), 1, 32)" if shape.key == "uuid" else shape.key
    return spark.range(end).selectExpr("id", f"{key} AS k", *_split(shape.columns))


def _split(columns: str) -> Iterator[str]:
    depth, begin = 0, 0
    for place, letter in enumerate(columns):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield columns[begin:place].strip()
            begin = place + 1
    yield columns[begin:].strip()


def _write(spark: "SparkSession", shape: Shape, path: Path, *, vectors: bool) -> None:
    order = [name for name in (shape.partition, "k") if name]
    rows = _rows(spark, shape, shape.rows).repartitionByRange(shape.files, *order)
    writer = rows.sortWithinPartitions(*order).write.format("delta")
    if shape.partition:
        writer = writer.partitionBy(shape.partition)
    writer.option("delta.enableDeletionVectors", str(vectors).lower()).save(str(path))


def _batch(spark: "SparkSession", shape: Shape) -> "DataFrame":
    rows = _rows(spark, shape, shape.rows + shape.new)
    comes = rows.where(f"({shape.batch}) AND id < {shape.rows} OR id >= {shape.rows}")
    changed = f"CASE WHEN {shape.same} THEN c0 ELSE c0 + 1 END"
    if not shape.events:
        return comes.selectExpr("id", "k", f"{changed} AS c0", *rows.columns[3:])
    # 60 % updates, 30 % inserts, 10 % deletes, as the batch's 7 old keys for 3 new ones make it;
    # rows of a key lie apart.
    op = f"CASE WHEN id >= {shape.rows} THEN 'I' WHEN pmod(xxhash64(id, n), 7) = 0 THEN 'D' "
    events = comes.selectExpr("*", f"explode(sequence(1, {shape.events})) AS n").selectExpr(
        "id", "k", "c0 + n AS c0", *rows.columns[3:], "n", f"{op} ELSE 'U' END AS op"
    )
    twice = events.where("pmod(xxhash64(id, n, 'twice'), 20) = 0")
    return events.union(twice).orderBy(F.xxhash64("id", "n"))


def _ways(spark: "SparkSession", shape: Shape, source: str) -> dict[str, Merge]:
    rows = f"delta.`{source}`"
    if shape.events:
        newest = "row_number() OVER (PARTITION BY k ORDER BY n DESC) AS nth"
        rows = f"(SELECT * FROM (SELECT *, {newest} FROM {rows}) WHERE nth = 1)"
    ways: dict[str, Merge] = {
        "Delta": lambda copy: by_delta(spark, copy, rows, shape.on, shape.clauses),
        OURS: lambda copy: by_merge_into(
            spark, copy, rows, shape.on, shape.clauses, skip_unchanged=shape.skips
        ),
    }
    if shape.skips:
        columns = _rows(spark, shape, 0).columns
        equal = " AND ".join(f"t.{name} <=> s.{name}" for name in columns if name != "k")
        compare: Clauses = (("update", f"NOT ({equal})"), ("insert", ""))
        ways["Delta, asked to compare"] = lambda copy: by_delta(
            spark, copy, rows, shape.on, compare
        )
    return ways


def delta_rs(copy: str, source: str) -> None:
    """The upsert by delta-rs, the native library of Delta without Spark."""
    from deltalake import DeltaTable

    rows = DeltaTable(source).to_pyarrow_table()
    merge = DeltaTable(copy).merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _in_a_row(spark: "SparkSession", place: Path, shape: Shape, rounds: int) -> list[Contest]:
    """Different batches into one table, with OPTIMIZE now and then and without: does time grow?"""
    target = place / "target"
    _write(spark, shape, target, vectors=True)
    engines: dict[str, Callable[..., object]] = {"Delta": by_delta, OURS: by_merge_into}
    ways = {f"{engine}{habit}": engine for engine in engines for habit in ("", ", OPTIMIZE")}
    merges: dict[str, list[float]] = {way: [] for way in ways}
    reads: dict[str, list[float]] = {way: [] for way in ways}
    files: dict[str, list[int]] = {way: [] for way in ways}
    upkeep: dict[str, float] = dict.fromkeys(ways, 0.0)
    copies: dict[str, str] = {}
    count = _MERGES_A_ROUND * rounds
    for number in range(-1, count):
        if number <= 0:  # the first batch warms up, on copies of its own
            copies = {way: str(place / f"copy{number}-{n}") for n, way in enumerate(ways)}
            for copy in copies.values():
                shutil.copytree(target, copy, copy_function=os.link)
        source = str(place / f"batch{number}")
        batch = replace(
            shape,
            rows=shape.rows + max(number, 0) * shape.new,
            batch=f"pmod(xxhash64(id, {number}), 1000) < 5",
        )
        _batch(spark, batch).write.format("delta").save(source)
        first = number % len(ways)
        for way in [*list(ways)[first:], *list(ways)[:first]]:
            copy, merge = copies[way], engines[ways[way]]
            took = _seconds(partial(merge, spark, copy, f"delta.`{source}`", shape.on, UPSERT))
            if "OPTIMIZE" in way and (number < 0 or (number + 1) % _UPKEEP_EVERY == 0):
                optimize = _seconds(partial(_optimize, spark, copy))
                upkeep[way] += optimize if number >= 0 else 0
            read = _seconds(partial(_read, spark, copy))
            console.print(f"  merge {number:>2} {way:<28} {took:8.3f} s", style="dim")
            if number >= 0:
                merges[way].append(took)
                reads[way].append(read)
                files[way].append(len(spark.table(f"delta.`{copy}`").inputFiles()))
    left = {way: checksum(spark, f"delta.`{copy}`") for way, copy in copies.items()}
    if len(set(left.values())) != 1:
        raise AssertionError(f"{shape.name}: {left}")
    facts = {
        way: f"{_growth(merges[way])} % of time a merge, {_growth(reads[way])} % of time a read, "
        f"{files[way][-1]} files at the end, {max(files[way])} at most, {upkeep[way]:.1f} s upkeep"
        for way in ways
    }
    limit = {OURS: SLOWEST}
    shutil.rmtree(place)
    return [
        Contest(f"{shape.name}: {count} merges", merges, "Delta", {}, facts, limit),
        Contest(f"{shape.name}: full scan after each", reads, "Delta"),
    ]


def _optimize(spark: "SparkSession", copy: str) -> None:
    spark.sql(f"OPTIMIZE delta.`{copy}`").collect()


def _read(spark: "SparkSession", copy: str) -> None:
    # A write to `noop` would do, but Delta refuses to plan it over rows marked as deleted.
    spark.table(f"delta.`{copy}`").selectExpr("bit_xor(xxhash64(*))").collect()


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _growth(seconds: list[float]) -> str:
    """By how many percent of the median the figures grow from one to the next, on a line."""
    slope = statistics.linear_regression(range(len(seconds)), seconds).slope
    return f"{slope / statistics.median(seconds) * 100:+.2f}"
