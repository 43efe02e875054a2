"""The kill matrix: every operation fails once at every step, before and after it, and with a lost
answer of the commit. Before the commit nothing has changed; a rerun ends as a run that never
failed, and leaves nothing behind.

All operations make their changes in one run, each on its own dataset that fails at its own step.
The steps are those that a clean run announces, so a new step is covered without a change here.
"""

import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import RunResult
from delta_pipelines.update.lease_record import read_record
from delta_pipelines_tests.support.engine_operations import OPERATIONS, Operation, comparable
from delta_pipelines_tests.support.kill_matrix import (
    Cell,
    cells_of,
    is_before_commit,
    recording,
    stopping,
)
from delta_pipelines_tests.support.pipelines import Injected, Seen, run, scratch, tables_of
from delta_pipelines_tests.support.shares import Share

pytestmark = pytest.mark.promise(8)

CELLS = {"views": 95, "upserts": 45, "streams": 120}
"""How many there are at least, of each group of operations."""
VACUUMED = {
    "full_view",
    "partition_rows",
    "merge_deletes",
    "merge_plain",
    "merge_drift",
    "stream_append",
}
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
STEPS = {
    "create_view": "analyse begin define write commit register recache",
    "alter_columns": "analyse begin define write commit recache",
    "partition_rows": "begin analyse define analyse write commit recache",
    "merge_rows": "analyse begin merge write write commit recache",
    "publish_view": "publish",
    "stream_append": "begin analyse stream batch begin write commit recache",
    "full_stream": "begin define analyse stream batch write commit recache",
}
"""What some operations pass for sure, so that a list of no steps proves nothing by mistake."""


class Matrix:
    """Makes changes of all operations at once, and looks at what became of them."""

    def __init__(
        self, spark: SparkSession, schema: str, operations: list[Operation], share: Share
    ) -> None:
        self.spark = spark
        self.schema = schema
        self.operations = operations
        self.share = share
        self.steps: dict[str, list[Any]] = {}
        self.clean: dict[tuple[str, int], Seen | None] = {}
        self.last: dict[str, Seen | None] = {}
        self.cells: dict[str, list[Cell]] = {}
        self.number = dict.fromkeys((op.name for op in operations), 0)
        self.total = self.done = 0
        self.problems: list[str] = []
        self.of_dropped: set[str] = set()
        """Checkpoints that tables named until an operation that creates dropped them."""

    def look(self, operation: Operation, name: str | None = None) -> Seen | None:
        return operation.seen(self.spark, self.schema, name)

    def prepare(self, operation: Operation) -> None:
        if operation.name == "create_stream":
            table = load_table(self.spark, Identifier(None, self.schema, operation.name))
            named = checkpoints_of(table.properties) if table else {}
            self.of_dropped |= {checkpoint.id for checkpoint in named.values()}
        operation.prepare(self.spark, self.schema, self.number[operation.name])
        if operation.name.startswith("create"):
            self.last[operation.name] = None
        elif operation.mirrors:
            self.last[operation.name] = self.look(operation)

    def run(
        self, operations: Iterable[Operation], *, twins: bool = False, landed: Iterable[str] = ()
    ) -> RunResult:
        """One run of the operations, without asking again for what is in the table already."""
        pipeline = scratch(self.schema, checkpoint_retention_days=0)
        names: list[str] = []
        options: dict[str, list[str]] = {}
        for operation in operations:
            doubles = [f"{operation.name}_clean"] if twins and not operation.repeats else []
            for name in (operation.name, *doubles):
                operation.declare(pipeline, name, self.number[operation.name])
                names.append(name)
                if operation.asks and name not in landed:
                    options.setdefault(operation.asks, []).append(name)
        return run(pipeline, self.spark, refresh=names, **options)

    def begin(self) -> None:
        """Changes 0 and 1 go well; the second tells the steps."""
        for number in (0, 1):
            for operation in self.operations:
                self.prepare(operation)
            with recording() as steps:
                result = self.run(self.operations, twins=True)
            for name, ended in result.results.items():
                assert ended.status == "completed", f"{name}, change {number}: {ended.error}"
            for operation in self.operations:
                self.last[operation.name] = self.look(operation)
                self.clean[operation.name, number] = comparable(self.last[operation.name])
                self.number[operation.name] += 1
        for number, operation in enumerate(self.operations):
            self.steps[operation.name] = steps[f"{self.schema}.{operation.name}"]
            cells = cells_of(self.steps[operation.name])
            self.total += len(cells)
            self.cells[operation.name] = list(self.share.of_parts(1, number).of(cells))
            self.prepare(operation)

    def round(self) -> bool:
        """Every operation fails at its next cell; False when none is left.

        Where nothing had happened the same change fails at the next cell, like a run that fails
        night after night; everywhere else it is run again at once.
        """
        cells = {op: self.cells[op.name].pop(0) for op in self.operations if self.cells[op.name]}
        if not cells:
            return False
        stops = {
            f"{self.schema}.{operation.name}": (cell, failing(f"{operation.name} {cell}", cell))
            for operation, cell in cells.items()
        }
        with stopping(stops) as happened:
            failed = self.run(cells, twins=False)
        landed, again = set(), []
        for operation, cell in cells.items():
            where = self.where(operation, cell)
            self.done += 1
            if happened.get(f"{self.schema}.{operation.name}") is not cell.step:
                self.problems.append(f"{where}: not reached")
            error = failed.results[operation.name].error
            if cell.moment == "lost" and error is not None:
                self.problems.append(f"{where}: a lost answer is no failure, but: {error}")
            elif cell.moment != "lost" and f"{operation.name} {cell}" not in str(error):
                self.problems.append(f"{where}: it ended with {error!r}")
            now, before = self.look(operation), self.last[operation.name]
            early = is_before_commit(cell, self.steps[operation.name])
            if early and now != before:
                self.problems.append(f"{where}: something happened: {before} became {now}")
            if operation.landed(before, now):
                landed.add(operation.name)
            following = self.cells[operation.name][:1]
            if not early or not all(
                is_before_commit(c, self.steps[operation.name]) for c in following
            ):
                again.append(operation)
        if again:
            self.rerun(again, cells, landed)
        return True

    def rerun(self, again: list[Operation], cells: dict[Operation, Cell], landed: set[str]) -> None:
        """Run the failed operations again and compare them with a clean run."""
        result = self.run(again, twins=True, landed=landed)
        for operation in again:
            where = self.where(operation, cells[operation])
            ended, now = result.results[operation.name], self.look(operation)
            self.last[operation.name] = now
            if ended.status not in ("completed", "unchanged"):
                self.problems.append(f"{where}: its rerun: {ended.error}")
            wanted = self.clean[operation.name, self.number[operation.name] % 2]
            if not operation.repeats:
                wanted = comparable(self.look(operation, f"{operation.name}_clean"))
            if comparable(now) != wanted:
                self.problems.append(f"{where}: clean is {wanted}, this is {comparable(now)}")
            self.number[operation.name] += 1
            if self.cells[operation.name]:
                self.prepare(operation)

    def finish(self) -> None:
        """One more change goes well: a run that writes removes what runs before it left."""
        for operation in self.operations:
            self.prepare(operation)
        for name, ended in self.run(self.operations).results.items():
            assert ended.status == "completed", f"{name}, last change: {ended.error}"

    def where(self, operation: Operation, cell: Cell) -> str:
        return f"{operation.name}, change {self.number[operation.name]}, {cell}"


def failing(message: str, cell: Cell) -> Any:
    def effect() -> None:
        if cell.moment == "lost":
            raise PySparkException(f"the answer is lost: {message}")
        raise Injected(message)

    return effect


LONG = pytest.mark.timeout(3600)


@pytest.mark.usefixtures("quick_vacuum")
@pytest.mark.parametrize("group", ["views", "upserts", pytest.param("streams", marks=LONG)])
def test_a_failure_at_any_step_leaves_all_as_before_and_a_rerun_ends_as_a_clean_run(
    spark, schema, warehouse, group, share, record_property
):
    began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    operations = [op for op in OPERATIONS if op.group == group]
    # A step of a stream takes longest, and there are most of them.
    share = share.of_parts(2 if group == "streams" else 1)
    matrix = Matrix(spark, schema, operations, share)
    before = of_the_session(spark, schema)
    matrix.begin()
    assert matrix.total >= CELLS[group]
    planned = sum(map(len, matrix.cells.values()))
    for name in matrix.steps.keys() & STEPS.keys():
        assert " ".join(step.value for step in matrix.steps[name]) == STEPS[name], name
    while matrix.round():
        pass
    assert matrix.problems == [], "\n".join(matrix.problems)
    assert matrix.done == planned
    matrix.finish()
    assert left_behind(spark, warehouse, schema, before, matrix.of_dropped) == []
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    record_property(
        "proved",
        f"kill matrix, {group}: {matrix.done} cells of {len(matrix.operations)} operations, "
        f"0 differences, {time.monotonic() - began:.0f} s ({spent:.0f} s of this process)",
    )


def of_the_session(spark: SparkSession, schema: str) -> set[str]:
    """Streams, cached rows and temporary views: other tests of the session leave some too."""
    found = {f"stream {query.name}" for query in spark.streams.active}
    cached = spark.sparkContext._jsc.getPersistentRDDs().items()
    found |= {
        f"cached rows {number} {rdd.name()}"
        for number, rdd in cached
        if not str(rdd.name()).startswith("Delta Table State")
    }
    views = spark.sql(f"SHOW VIEWS IN {schema}").collect()
    return found | {f"temporary view {row['viewName']}" for row in views if row["isTemporary"]}


def left_behind(
    spark: SparkSession, warehouse: Path, schema: str, before: set[str], of_dropped: set[str]
) -> list[str]:
    """What neither the catalog nor a table names, after every dataset was run once more.

    Who drops a table leaves its checkpoints (docs/streaming.md); those do not count.
    """
    found = sorted(of_the_session(spark, schema) - before)
    tables = tables_of(spark, schema)
    place = warehouse / f"{schema}.db"
    folders = {path.name for path in place.iterdir()} - {"_delta_pipelines"}
    found += [f"folder {name} without a table" for name in folders - set(tables)]
    leases = list((place / "_delta_pipelines" / "leases").iterdir())
    assert leases, "they are beside the tables"
    for folder in leases:
        files = list(folder.iterdir())
        record = read_record(files[0].read_text()) if len(files) == 1 else None
        if record is None or not record.released:
            found.append(f"lease {folder.name}: {[file.name for file in files]}")
    for folder in (warehouse / "_delta_pipelines").glob(f"*/_checkpoints/{schema}.*/*"):
        table = load_table(spark, Identifier(None, schema, folder.parent.name.partition(".")[2]))
        known = checkpoints_of(table.properties)[folder.name].id if table else None
        others = {path.name for path in folder.iterdir()} - {known} - of_dropped
        found += [f"checkpoint {folder / name}" for name in others]
    with setting(spark, RETENTION_CHECK, "false"):
        for name in VACUUMED & set(tables):
            spark.sql(f"VACUUM {schema}.{name} RETAIN 0 HOURS").collect()
            kept = {Path(path).name for path in spark.table(f"{schema}.{name}").inputFiles()}
            folder = warehouse / f"{schema}.db" / name
            there = folder.rglob("part-*.parquet")
            found += [f"file {path} of {name}" for path in there if path.name not in kept]
            vectors = sorted(folder.rglob("deletion_vector_*.bin"))
            found += [f"{vectors} of {name}"] if len(vectors) > len(kept) else []
    return found
