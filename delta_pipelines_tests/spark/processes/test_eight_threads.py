"""Eight writers in one process on three shared tables: every change is there exactly once."""

import threading
import time
from pathlib import Path

import pytest

from delta_pipelines_tests.support.history_checker import problems, read_log
from delta_pipelines_tests.support.pipelines import rows_of
from delta_pipelines_tests.support.refresh_rounds import TABLES, Writer

THREADS = 8
ROUNDS = 3
SOAK_ROUNDS = 100
SOAK = pytest.param(SOAK_ROUNDS, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])


@pytest.mark.promise(8)
@pytest.mark.parametrize("rounds", [ROUNDS, SOAK])
def test_every_change_of_eight_threads_is_there_exactly_once(
    spark, schema, warehouse: Path, rounds, record_property
) -> None:
    started = time.monotonic()
    maker = Writer(spark, schema, "maker")
    for table in TABLES:
        maker.round(table, 0)
    writers = [Writer(spark, schema, f"w{number}") for number in range(THREADS)]
    threads = [threading.Thread(target=writer.work, args=(rounds,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [entry for writer in (maker, *writers) for entry in writer.done]
    assert len(done) == THREADS * rounds + len(TABLES)
    counted = 0
    for table in TABLES:
        operations = [operation for name, operation in done if name == table]
        log = read_log(warehouse / f"{schema}.db" / table)
        assert problems(operations, log, dict(rows_of(spark, f"{schema}.{table}"))) == []
        counted += len(log)
    assert counted == len(done)
    assert max(writer.attempts for writer in writers) == 1  # no writer ever met a conflict
    record_property(
        "proved",
        f"{THREADS} threads x {rounds} rounds: {counted} commits, each once, "
        f"{time.monotonic() - started:.0f} s",
    )
