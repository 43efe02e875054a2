"""Delta's 16 shared merge cases: `merge_into` against Delta's own MERGE.

Target: TPC-DS `web_returns` by `tpcgen-cli`, two million rows in 200 files ordered by order number,
with deletion vectors and without. Each measured merge gets a fresh copy of the target, with a
loaded snapshot; sources are Delta tables. Before figures count, every way must have left
the same rows. `DELTA_PIPELINES_BENCHMARK_ROWS` makes the target smaller, for a try.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.fresh_copies import (
    OURS,
    TUNED,
    UPSERT,
    Clauses,
    by_delta,
    by_merge_into,
    by_tuned_delta,
    chosen,
    cut,
    floors,
    race,
)
from benchmarks.timing import Contest, overall
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
ROWS_PER_SCALE = 71_654
"""Returns per unit of TPC-DS's scale factor."""
FILES = 200
FEWEST_FILES = 20
"""With fewer no twentieth of them could be chosen."""
KEYS = ("wr_order_number", "wr_item_sk")
ON = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)


@dataclass(frozen=True)
class Case:
    """One of the shared cases.

    Args:
        name: Its name.
        clauses: What it does.
        files: Part of the target's files in which rows of the source are.
        matched: Part of their rows that match.
        new: Part of their rows that come again with new keys.
        faster: How many times as fast as Delta it is to be, if that is asked.
        only_vectors: That is asked with deletion vectors only.
    """

    name: str
    clauses: Clauses
    files: float
    matched: float
    new: float
    faster: float | None = None
    only_vectors: bool = False


def _cases() -> Iterator[Case]:
    kinds = {"insert": "", "two inserts": "s.wr_item_sk % 2 = 0"}
    for kind, first in kinds.items():
        clauses = tuple(("insert", when) for when in ([first, ""] if first else [""]))
        for new in (0.05, 0.5, 1.0):
            faster = 1.7 if new == 0.5 else None
            yield Case(f"{kind}, new {new:g}", clauses, 0.05, 0, new, faster)
    yield Case("delete", (("delete", ""),), 0.05, 0.05, 0, faster=2, only_vectors=True)
    for files, matched, new in (
        *((0.05, 0, 0.1), (0.05, 0.01, 0.1), (0.05, 0.1, 0.1)),
        *((0.05, 0.5, 0.001), (0.05, 0.99, 0.001), (0.05, 1.0, 0.001)),
        *((0.05, 0.1, 0), (0.5, 0.01, 0.001), (1.0, 0.01, 0.001)),
    ):
        name = f"upsert, files {files:g}, matched {matched:g}, new {new:g}"
        yield Case(name, UPSERT, files, matched, new)


CASES = tuple(_cases())
FASTER_ON_AVERAGE = 2
"""How many times as fast as Delta the geometric mean of all is to be."""


def run(rounds: int = 5) -> list[Contest]:
    """Time all cases, with deletion vectors and without, and take each layout's geometric mean.

    Args:
        rounds: Rounds that count.
    """
    contests = []
    with warm_session(spark__driver__memory="6g") as (spark, folder):
        rows = spark.read.parquet(_generated(folder))
        for vectors in (True, False):
            layout = "deletion vectors" if vectors else "copy on write"
            cases = [case for case in CASES if chosen(f"{case.name}, {layout}")]
            if not cases:
                continue
            target = _target(rows, folder / f"target-{vectors}", vectors=vectors)
            races = []
            for number, case in enumerate(cases):
                source = _source(spark, target, case, folder / f"source-{vectors}-{number}")
                name = f"{case.name}, {layout}"
                races.append(_race(spark, name, case, target, source, rounds, vectors))
            mean = f"geometric mean of {len(cases)} cases, {layout}"
            contests += [*races, overall(mean, races, {OURS: 1 / FASTER_ON_AVERAGE})]
            against = [contest.against(TUNED, {OURS: 1.0}) for contest in races]
            contests.append(overall(f"{mean}, against {TUNED}", against, {OURS: 1.0}))
    return contests


def _race(
    spark: "SparkSession",
    name: str,
    case: Case,
    target: Path,
    source: str,
    rounds: int,
    vectors: bool,
) -> Contest:
    merge = (f"delta.`{source}`", ON, case.clauses)
    writes_all = case.clauses == UPSERT or case.matched == 0
    return race(
        spark,
        name,
        target,
        {
            "Delta": lambda copy: by_delta(spark, copy, *merge),
            TUNED: lambda copy: by_tuned_delta(spark, copy, *merge),
            OURS: lambda copy: by_merge_into(spark, copy, *merge),
        },
        rounds,
        faster=case.faster if vectors or not case.only_vectors else None,
        beside=floors(spark, KEYS, source if writes_all else ""),
    )


def _generated(folder: Path) -> str:
    tool = shutil.which("tpcgen-cli", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    if tool is None:
        raise RuntimeError("tpcgen-cli is missing: pip install '.[benchmarks]'")
    place = folder / "tpcds"
    scale = round(cut(ROWS) / ROWS_PER_SCALE, 2)
    command = [tool, "tpcds", "parquet", "-s", str(scale), "-T", "web_returns", "-o", str(place)]
    subprocess.run(command, check=True)
    [file] = place.rglob("web_returns*.parquet")
    return str(file)


def _target(rows: "DataFrame", path: Path, *, vectors: bool) -> Path:
    ordered = rows.repartitionByRange(_files(), *KEYS).sortWithinPartitions(*KEYS)
    writer = ordered.write.format("delta")
    writer.option("delta.enableDeletionVectors", str(vectors).lower()).save(str(path))
    return path


def _files() -> int:
    return max(FEWEST_FILES, FILES * cut(ROWS) // ROWS)


def _source(spark: "SparkSession", target: Path, case: Case, path: Path) -> str:
    """Some rows of some of the target's files, and some of them again with keys of their own.

    Files are chosen by their number in the order of keys, not by their random names: every run has
    the same ones. 211 is a prime that divides no number of files, so the chosen lie apart.
    """
    rows = spark.read.format("delta").load(str(target))
    number = "CAST(regexp_extract(_metadata.file_name, 'part-([0-9]+)', 1) AS INT)"
    with_file = rows.selectExpr("*", f"{number} * 211 % {_files()} AS file")
    within = with_file.where(f"file < {case.files * _files()}").drop("file")
    some = "pmod(xxhash64(wr_order_number, wr_item_sk, {}), 100000) < {}"
    matched = within.where(some.format(1, case.matched * 100_000))
    new = within.where(some.format(2, case.new * 100_000))
    fresh = {key: f"xxhash64({key}, {number}) / 1e19" for number, key in enumerate(KEYS)}
    new = new.selectExpr(*(f"{fresh.get(name, name)} AS {name}" for name in new.columns))
    matched.union(new).write.format("delta").save(str(path))
    return str(path)
