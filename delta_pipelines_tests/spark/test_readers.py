"""Readers never see an empty or a mixed table while batch datasets are refreshed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from delta_pipelines_tests.support.daily_tables import KEYS, Daily
from delta_pipelines_tests.support.pipelines import Feed, merged, mirror, run_well, scratch

pytestmark = pytest.mark.promise(1)

ROWS = 5
REFRESHES = 4
PAUSE_SECONDS = 0.1


class Reader:
    """Reads a table in a loop and keeps every distinct thing it saw.

    Args:
        spark: The session.
        name: The table; every row's second column is its generation.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name
        self.reads = 0
        self.seen: dict[tuple[tuple[int, int], ...], None] = {}
        self.error: BaseException | None = None

    def loop(self, stop: threading.Event) -> None:
        """Read until the event is set."""
        try:
            # Without a pause two readers take the whole machine, and a refresh takes a minute.
            while not stop.wait(PAUSE_SECONDS):
                counts: dict[int, int] = {}
                for row in self._spark.table(self._name).collect():
                    counts[row[1]] = counts.get(row[1], 0) + 1
                self.seen[tuple(sorted(counts.items()))] = None
                self.reads += 1
        except Exception as error:  # noqa: BLE001 - raised by the test's own thread
            self.error = error

    def generations(self) -> list[int]:
        """The generations in the order they were first seen, each whole and alone."""
        assert self.error is None, self.error
        for counts in self.seen:
            assert len(counts) == 1, f"mixed or empty: {counts}"
            assert counts[0][1] == ROWS, f"not all rows: {counts}"
        return [counts[0][0] for counts in self.seen]


@contextmanager
def reading(*readers: Reader) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=reader.loop, args=(stop,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_readers_see_exactly_one_generation_during_refreshes_and_full_refreshes(spark, schema):
    feed = Feed("id INT, generation INT", *[(n, 0) for n in range(ROWS)])
    pipeline = scratch(schema)
    mirror(pipeline, "computed", feed)
    merged(pipeline, "kept", feed, keys=["id"])
    run_well(pipeline, spark)
    readers = [Reader(spark, f"{schema}.{name}") for name in ("computed", "kept")]
    with reading(*readers):
        for generation in range(1, REFRESHES + 1):
            feed.set(*[(n, generation) for n in range(ROWS)])
            run_well(pipeline, spark, full_refresh_all=generation % 2 == 0)
            for reader in readers:  # each version is read at least once
                before = reader.reads
                while reader.reads < before + 2 and reader.error is None:
                    threading.Event().wait(0.01)
    for reader in readers:
        assert reader.generations() == list(range(REFRESHES + 1))
        assert reader.reads > 3 * REFRESHES


def test_readers_see_old_or_new_columns_never_a_mix(spark, schema):
    feed = Feed("id INT, generation INT", *[(n, 0) for n in range(ROWS)])
    pipeline = scratch(schema)
    mirror(pipeline, "computed", feed)
    merged(pipeline, "kept", feed, keys=["id"])
    run_well(pipeline, spark)
    readers = [Reader(spark, f"{schema}.{name}") for name in ("computed", "kept")]
    columns = feed.columns
    with reading(*readers):
        for generation in range(1, 3):
            columns += f", extra_{generation} INT"
            extras = (generation,) * generation
            feed.set(*[(n, generation, *extras) for n in range(ROWS)], columns=columns)
            run_well(pipeline, spark)
    for reader in readers:
        assert reader.generations() == sorted(reader.generations())


class DayReader(Reader):
    """Keeps every distinct thing that it saw: per day the values and their number."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        super().__init__(spark, name)
        self.looks: dict[tuple[tuple[str, str, int], ...], None] = {}

    def loop(self, stop: threading.Event) -> None:
        """Read until the event is set."""
        try:
            while not stop.wait(PAUSE_SECONDS):
                counts: dict[tuple[str, str], int] = {}
                for day, _, value in self._spark.table(self._name).collect():
                    counts[str(day), value] = counts.get((str(day), value), 0) + 1
                self.looks[tuple((*key, counts[key]) for key in sorted(counts))] = None
                self.reads += 1
        except Exception as error:  # noqa: BLE001 - raised by the test's own thread
            self.error = error


@pytest.mark.parametrize("layout", [{}, {"partition_cols": ["day"]}])
def test_readers_see_each_range_old_or_new_while_it_is_replaced(spark, schema, layout):
    daily = Daily.made(spark, schema, **layout)
    for _ in range(2):
        daily.insert(*[(day, "old") for day in range(1, 6)])
    daily.refreshed()
    reader = DayReader(spark, daily.table)
    with reading(reader):
        for generation in range(1, REFRESHES + 1):
            daily.update(f"v{generation}")
            if generation % 2:
                assert daily.refreshed("2024-01-02..2024-01-04") == KEYS[1:4]
            else:
                daily.refreshed(full_refresh=["t"])
            before = reader.reads  # each version is read at least once
            while reader.reads < before + 2 and reader.error is None:
                threading.Event().wait(0.01)
    assert reader.error is None, reader.error
    ranges = []
    for look in reader.looks:
        assert [day for day, _, _ in look] == [*KEYS], f"not each day in one version: {look}"
        assert {count for _, _, count in look} == {3}, f"not all rows: {look}"
        values = [value for _, value, _ in look]
        assert values[1] == values[2] == values[3], f"a range is mixed: {look}"
        assert values[0] == values[4], f"the other days are mixed: {look}"
        ranges.append((values[0], values[1]))
    assert ranges == [("old", "old"), ("old", "v1"), ("v2", "v2"), ("v2", "v3"), ("v4", "v4")]
