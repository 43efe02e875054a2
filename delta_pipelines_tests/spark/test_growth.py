"""Twice as many datasets take twice as many requests to the JVM and the catalog, and no more logs.

Counted, not timed.
"""

import io
import logging
from collections import Counter
from collections.abc import Callable

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME
from rich.console import Console

import delta_pipelines as dp
from delta_pipelines.cli.run_view import run_in_terminal
from delta_pipelines.planning.refresh_request import RefreshRequest

SIZES = (20, 40)


def pipeline(schema: str, size: int) -> dp.Pipeline:
    """A fan of every kind of dataset on one source, and a chain of a fifth of the datasets."""
    made = dp.Pipeline("growth", schema=f"{schema}_{size}")
    source = f"{schema}.src"
    made.source(source)
    before = source
    for number in range(size // 5):
        made.materialized_view(f"chain{number}", f"SELECT * FROM {before}")
        made.materialized_view(f"t{number}", f"SELECT id, {number} AS n FROM {source}")
        made.upsert(f"u{number}", f"SELECT * FROM {source}", keys=["id"])
        made.view(f"v{number}", f"SELECT * FROM {source}")

        @made.streaming_table(f"s{number}", inputs={"rows": source})
        def appended(rows):
            return rows

        before = f"chain{number}"
    return made


class Counters:
    """What a piece of work asks of the JVM and the catalog, and what it logs."""

    def __init__(self, spark, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
        self._spark, self._patch, self._caplog = spark, monkeypatch, caplog

    def of(self, work: Callable[[], object]) -> Counter[str]:
        counts: Counter[str] = Counter()
        send = ClientServerConnection.send_command

        def counted(connection: ClientServerConnection, command: str) -> str:
            # Python's garbage collection speaks too, of what any test before has left.
            counts["JVM"] += not command.startswith(MEMORY_COMMAND_NAME)
            return str(send(connection, command))

        self._caplog.clear()
        before = self._catalog_calls()
        with (
            self._patch.context() as patch,
            self._caplog.at_level(logging.INFO, logger="delta_pipelines"),
        ):
            patch.setattr(ClientServerConnection, "send_command", counted)
            work()
        counts["catalog"] = self._catalog_calls() - before
        counts["log lines"] = len(self._caplog.records)
        return counts

    def _catalog_calls(self) -> int:
        metrics = self._spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
        return int(metrics.METRIC_HIVE_CLIENT_CALLS().getCount())


def test_twice_the_datasets_are_twice_the_requests(spark, schema, monkeypatch, caplog) -> None:
    spark.sql(f"CREATE TABLE {schema}.src (id BIGINT) USING delta")
    spark.sql(f"INSERT INTO {schema}.src VALUES (1), (2)")
    counters = Counters(spark, monkeypatch, caplog)
    pipeline(schema, 5).run(spark)  # what only the first run of a process asks
    counted: dict[str, list[Counter[str]]] = {}
    for size in SIZES:
        made = pipeline(schema, size)
        for what in ("plan", "first run", "unchanged run"):
            work = made.plan if what == "plan" else made.run
            counted.setdefault(what, []).append(counters.of(lambda work=work: work(spark)))
    for what, (few, many) in counted.items():
        for name, count in many.items():
            assert count <= 2.15 * few[name] + 5, (what, name, few, many)
    assert counted["unchanged run"][1]["log lines"] == 0
    assert counted["unchanged run"][1]["catalog"] <= 3 * SIZES[1]


def test_an_unchanged_run_of_forty_prints_a_few_lines(spark, schema) -> None:
    spark.sql(f"CREATE TABLE {schema}.src (id BIGINT) USING delta")
    made = pipeline(schema, 40)
    made.run(spark)
    console = Console(file=io.StringIO(), width=200)
    assert run_in_terminal(made, spark, console, RefreshRequest())
    lines = console.file.getvalue().splitlines()
    assert len(lines) < 10, lines
    assert lines[-1] == "40 datasets: 40 unchanged."


def test_a_run_of_five_datasets_reads_no_other_logs(spark, schema, monkeypatch, caplog) -> None:
    spark.sql(f"CREATE TABLE {schema}.src (id BIGINT) USING delta")
    counters = Counters(spark, monkeypatch, caplog)
    chosen = [f"t{number}" for number in range(4)]
    requests = {}
    for size in SIZES:
        made = pipeline(schema, size)
        made.run(spark)
        requests[size] = counters.of(lambda made=made: made.run(spark, refresh=chosen))["JVM"]
    # Only the question for the locations of all tables grows.
    assert requests[40] <= requests[20] + 6 * 20, requests
