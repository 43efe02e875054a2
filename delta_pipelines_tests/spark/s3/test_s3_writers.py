"""Several writers on S3: leases and commits of which each one happens exactly once.

The tests share two processes.
"""

import random
import time

import pytest

from delta_pipelines_tests.spark.s3.conftest import WAREHOUSE
from delta_pipelines_tests.support.history_checker import Committed, Operation, problems
from delta_pipelines_tests.support.s3_server import (
    CREDENTIALS,
    moto_server,
    proxy,
    settings_for,
    versity_server,
    versitygw,
)
from delta_pipelines_tests.support.spark_workers import Worker

pytestmark = pytest.mark.timeout(3600)
LEASES, ROUNDS = 40, 4
SOAK_LEASES, SOAK_ROUNDS = 500, 100


def quick_and_long(quick: int, long: int) -> list[object]:
    """A quick case, with lost answers, and two long ones, with and without."""
    return [
        pytest.param(quick, True, id=f"{quick}-lost answers"),
        pytest.param(long, False, id=f"{long}-answers", marks=pytest.mark.soak),
        pytest.param(long, True, id=f"{long}-lost answers", marks=pytest.mark.soak),
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store whose requests are answered in parallel, where it is installed; else moto."""
    if versitygw() is None:
        with moto_server() as port, proxy(port) as started:
            yield started
    else:
        with versity_server(tmp_path_factory.mktemp("objects")) as port, proxy(port) as started:
            yield started


@pytest.fixture(scope="module")
def pair(start):
    workers = [start(name) for name in ("first", "second")]
    assert [worker.answer() for worker in workers] == ["open", "open"]
    return workers


RACED = """
files = lease_files(spark, dp.Identifier(None, "raced", {table!r}))
def race(start, count):
    won = []
    for number in range(1, count + 1):
        time.sleep(max(0, start + number * {gap} - time.time()))
        if files.create(number, f"{{os.getpid()}} takes {{number}}"):
            won.append(number)
    return won
answer = "ready"
"""


@pytest.mark.promise(8)
@pytest.mark.parametrize(("count", "lossy"), quick_and_long(LEASES, SOAK_LEASES))
def test_each_lease_has_one_winner(pair, store, count, lossy, record_property) -> None:
    table, gap = f"t{count}{lossy}", 0.12
    for worker in pair:
        worker.do(RACED.format(table=table, gap=gap))
    chance = random.Random(count)
    started_at, store.lost = time.time() + 1, 0
    with losing(store, lambda method, path: method == "PUT" and chance.random() < 0.3, lossy):
        for worker in pair:
            worker.start(f"answer = race({started_at}, {count})")
        won = [set(worker.answer()) for worker in pair]
    assert won[0] & won[1] == set()
    assert won[0] | won[1] == set(range(1, count + 1))
    assert bool(store.lost) == lossy
    record_property("proved", f"{count} leases on S3, {store.lost} answers lost: one winner each")


REWRITTEN = """
from delta_pipelines.delta.storage.exclusive_files import content_of
files = lease_files(spark, dp.Identifier(None, "raced", "rewritten"))
files.create(1, "taken")

class Rewriting:
    texts = ["renewed", "renewed again"]
    def open(self, path):
        stream = files._files.open(path)
        if self.texts:
            files.rewrite(1, self.texts.pop(0))
        return stream

class Removing:
    def open(self, path):
        stream = files._files.open(path)
        files.remove(1)
        return stream

path = files._path(1)
answer = [content_of(opened, path, 100) for opened in (Rewriting(), Removing())]
answer = [content and content.decode() for content in answer]
"""


def test_a_lease_that_changes_while_it_is_read_is_read_again(pair) -> None:
    """The client refuses to read on in a file that is not the one that it opened."""
    assert pair[0].do(REWRITTEN) == ["renewed again", None]


ANSWER = """
import dataclasses
done = [[table, dataclasses.asdict(operation)] for table, operation in w.done]
answer = {"done": done, "attempts": w.attempts}
"""
LOG = """
def log_of(table):
    history = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    return [[row.version, json.loads(row.userMetadata or "{}").get("run_id", "a stranger")]
            for row in history]
"""


@pytest.mark.promise(8)
@pytest.mark.parametrize(("rounds", "lossy"), quick_and_long(ROUNDS, SOAK_ROUNDS))
def test_every_change_of_two_processes_is_there_once(
    pair, store, rounds, lossy, record_property
) -> None:
    check_rounds(pair, store, rounds, lossy, record_property)


@pytest.mark.soak
def test_every_change_of_four_processes_is_there_once(pair, start, store, record_property) -> None:
    more = [start(name) for name in ("third", "fourth")]
    assert [worker.answer() for worker in more] == ["open", "open"]
    check_rounds([*pair, *more], store, SOAK_ROUNDS, False, record_property)


def check_rounds(workers, store, rounds, lossy, record_property) -> None:
    schema = f"rounds_{rounds}_{len(workers)}_{lossy}".lower()
    started, store.lost = time.monotonic(), 0
    code = f"w = Writer(spark, {schema!r}, {{!r}})\n"
    workers[0].do(code.format("maker") + "[w.round(table, 0) for table in TABLES]")
    made = workers[0].do(ANSWER)
    chance = random.Random(rounds)
    commits = lambda method, path: (  # noqa: E731
        method == "PUT" and "_delta_" in path and chance.random() < 0.1
    )
    with losing(store, commits, lossy):
        for number, worker in enumerate(workers):
            worker.start(code.format(f"w{number}") + f"w.work({rounds})\n" + ANSWER)
        done = [made, *(worker.answer() for worker in workers)]
    workers[1].do(LOG)
    counted = 0
    for table in ("ledger", "tally", "board"):
        operations = [
            Operation(**values) for each in done for name, values in each["done"] if name == table
        ]
        final = dict(workers[1].do(f"answer = rows_of(spark, '{schema}.{table}')"))
        log = [Committed(*each) for each in workers[1].do(f"answer = log_of('{schema}.{table}')")]
        assert problems(operations, log, final) == []
        counted += len(log)
    assert counted == len(workers) * rounds + 3
    assert bool(store.lost) == lossy
    record_property(
        "proved",
        f"S3, {len(workers)} processes x {rounds} rounds, {store.lost} answers lost: {counted} "
        f"commits, each once, {time.monotonic() - started:.0f} s",
    )


APPENDS = """
from pyspark.errors import PySparkException
def append(session, name, count):
    for number in range(count):
        for attempt in range(50):
            try:
                session.sql(f"INSERT INTO delta.`{PLAIN}` VALUES ('{name}-{number}')")
                break
            except PySparkException as error:
                assert "Concurrent" in str(error) or "CONCURRENT" in str(error), error
    return "appended"
"""
PLAIN_SESSION = """
from pyspark.sql import SparkSession
from delta_pipelines.session import spark_config
builder = SparkSession.builder
settings = {settings!r} | {{"spark.sql.catalogImplementation": "in-memory"}}
for name, value in spark_config({warehouse!r}, extra=settings).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
answer = spark.sparkContext.getConf().get("spark.delta.logStore.s3a.impl")
"""


def test_plain_sessions_with_our_settings_lose_nothing(
    pair, store, tmp_path, process_settings, record_property
) -> None:
    """Delta's own commits, also by a session that we did not build; no lease keeps them apart."""
    table = f"{WAREHOUSE}/plain/appended"
    plain = Worker(tmp_path / "plain", "", CREDENTIALS)
    try:
        settings = process_settings | settings_for(store.port)
        code = PLAIN_SESSION.format(settings=settings, warehouse=WAREHOUSE)
        assert plain.do(code) == "delta_pipelines.S3LogStore"
        pair[0].do(f"spark.sql('CREATE TABLE delta.`{table}` (name STRING) USING delta')")
        store.lost = 0
        with losing(store, lambda m, path: m == "PUT" and "/_delta_log/" in path, True, every=7):
            for name, worker in (("a", pair[0]), ("b", plain)):
                worker.do(f"PLAIN = {table!r}\n{APPENDS}")
                worker.start(f"answer = append(spark, {name!r}, 12)")
            assert [worker.answer() for worker in (pair[0], plain)] == ["appended"] * 2
    finally:
        plain.end()
    rows = [row for [row] in pair[1].do(f"answer = rows_of(spark, 'delta.`{table}`')")]
    assert sorted(rows) == sorted(f"{name}-{number}" for name in "ab" for number in range(12))
    record_property("proved", f"24 appends without leases, {store.lost} answers lost: 24 rows")


class losing:  # noqa: N801
    """While the block runs, the proxy loses the answers to some requests.

    Args:
        every: Loses every nth of them only.
    """

    def __init__(self, store, loses, lossy, every=1):
        self.store, self.lossy, self.seen = store, lossy, 0

        def chosen(method, path):
            if not loses(method, path):
                return False
            self.seen += 1
            return self.seen % every == 0

        self.chosen = chosen

    def __enter__(self):
        if self.lossy:
            self.store.loses = self.chosen

    def __exit__(self, *_):
        self.store.loses = lambda method, path: False
