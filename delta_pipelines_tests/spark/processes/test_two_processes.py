"""Two processes, each with its Spark, in one warehouse with a catalog on a real PostgreSQL.

The tests share the two processes and stand in an order: the last one kills the first process.
"""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_pipelines_tests.support.daily_tables import KEYS
from delta_pipelines_tests.support.history_checker import Operation, problems, read_log
from delta_pipelines_tests.support.postgres_server import PASSWORD, PostgresServer, postgres_server
from delta_pipelines_tests.support.spark_workers import Worker, wait_for

ROUNDS = 6
SOAK_ROUNDS = 50

PREAMBLE = """
import os, signal, time
from pathlib import Path
import delta_pipelines as dp
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.support.pipelines import (
    Feed, merged, mirror, once_at, rows_of, run_one, scratch, seen, tables_of,
)
from delta_pipelines_tests.support.daily_tables import KEYS, Daily
from delta_pipelines_tests.support.refresh_rounds import TABLES, Writer
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared warehouse") / "warehouse"


@pytest.fixture(scope="module")
def workers(
    server: PostgresServer, warehouse: Path, process_settings: dict[str, str]
) -> Iterator[list[Worker]]:
    """Two processes that open the catalog, which does not exist yet, at the same time."""
    secret = {"DELTA_PIPELINES_CATALOG_PASSWORD": PASSWORD}
    made = [Worker(warehouse.parent / name, PREAMBLE, secret) for name in ("first", "second")]
    try:
        opened = (
            f"spark = dp.get_session({str(warehouse)!r}, catalog={server.url!r}, "
            f"config={process_settings!r}); answer = 'open'"
        )
        for worker in made:
            worker.start(opened)
        assert [worker.answer() for worker in made] == ["open", "open"]
        yield made
    finally:
        for worker in made:
            worker.end()


def test_two_processes_open_one_new_catalog_at_once(workers, server, warehouse) -> None:
    assert server.query('SELECT "SCHEMA_VERSION" FROM "VERSION"') == "2.3.0"
    assert server.query('SELECT count(*) FROM "DBS"') == "1"
    assert server.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    assert not (warehouse / "_metastore").exists()  # no Derby, and no lock on it


def test_the_password_is_neither_in_a_command_line_nor_in_a_setting_nor_in_a_log(workers) -> None:
    for worker in workers:
        jvm, shown = worker.do(
            "from delta_pipelines.delta.jvm.driver_jvm import jvm_pid\n"
            "shown = [spark.sparkContext.getConf().getAll(), spark.sql('SET -v').collect()]\n"
            "answer = jvm_pid(), str(shown)"
        )
        for text in (shown, worker.errors.read_text(), *command_lines(jvm, worker.process.pid)):
            assert PASSWORD not in text


FOUND_BY_ROWS = """
import io, logging
from delta_pipelines.delta.catalog.entries import catalog_entries, registered_location
from delta_pipelines.model.identifiers import Identifier
spark.sql("CREATE SCHEMA stored")
spark.sql("CREATE TABLE stored.t USING delta AS SELECT 1 AS a")
spark.sql("CREATE VIEW stored.v AS SELECT 1 AS a")
names = [Identifier(None, "stored", name) for name in ("t", "v", "nothing")]
wire = io.StringIO()
logging.basicConfig(level=logging.DEBUG, stream=wire, force=True)
entries = catalog_entries(spark, names)
logging.basicConfig(level=logging.WARNING, force=True)
places = [entries[name].location for name in names]
answer = places, [registered_location(spark, name) for name in names], wire.getvalue()
"""


def test_rows_of_the_server_have_the_locations_and_py4js_log_has_no_password(workers) -> None:
    (place, view, nothing), (registered, _, absent), wire = workers[0].do(FOUND_BY_ROWS)
    assert place == registered
    assert place.endswith("/stored.db/t")
    assert view is nothing is absent is None
    assert "spassword\ns***\n" in wire
    assert PASSWORD not in wire
    assert "p@ss" not in wire


def command_lines(*pids: int) -> list[str]:
    texts = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
    assert all(texts)
    return texts


CHANGED_VIEW = """
from delta_pipelines.delta.catalog.views import load_view
def declaring(sql, **options):
    pipeline = scratch("viewed")
    pipeline.view("v", sql, **options)
    return pipeline.run(spark, raise_on_error=False).results["v"]
declaring("SELECT 1 AS x", comment="old")
before = load_view(spark, dp.Identifier(None, "viewed", "v"))
refused = [
    str(declaring("SELECT 1 AS x, 2 AS X").error),
    str(declaring("SELECT 2 AS x", table_properties={"k" * 257: "1"}).error),
    str(declaring("SELECT 2 AS x", comment="c" * 33_000).error),
]
assert load_view(spark, dp.Identifier(None, "viewed", "v")) == before
long = declaring("SELECT '" + "x" * 40_000 + "' AS x", comment="c" * 32_000)
answer = refused, long.status, [row[0] for row in rows_of(spark, "viewed.v")]
"""


def test_a_view_keeps_its_definition_there_too_and_its_text_has_no_limit(workers) -> None:
    (twice, key, comment), status, rows = workers[0].do(CHANGED_VIEW)
    assert "column X occurs twice" in twice
    assert "stores at most 256" in key
    assert (
        "property 'comment' has 33,000 characters, but the catalog stores at most 32,672" in comment
    )
    assert (status, rows) == ("completed", ["x" * 40_000])


WRONG = """
from delta_pipelines.delta.startup import metastore_schema as metastore
from delta_pipelines.system.postgres_catalog import PostgresCatalog

def connection_error(address):
    catalog = PostgresCatalog.of(address)
    try:
        with metastore._connection(spark._jvm, catalog, catalog.secret()):
            return "let in"
    except dp.SessionError as error:
        assert error.__cause__ is None
        return str(error)
"""


def test_an_unreachable_catalog_says_why_and_what_to_do(workers, server) -> None:
    at = f"127.0.0.1:{server.port}"
    addresses = [
        f"postgresql://metastore:wrong-secret@{at}/metastore",
        f"postgresql://not-known:x@{at}/metastore",
        f"postgresql://metastore@{at}/nowhere",
        "postgresql://metastore@127.0.0.1:9/metastore",
    ]
    workers[0].do(WRONG)
    password, user, database, port = (
        workers[0].do(f"answer = connection_error({a!r})") for a in addresses
    )
    assert re.match(rf"The catalog server {at} rejects the user metastore: .*password", password)
    assert "wrong-secret" not in password
    assert f"The catalog server {at} rejects the user not-known" in user
    assert f"{at} has no database nowhere: create it (`createdb --owner metastore nowh" in database
    assert "The catalog server 127.0.0.1:9 cannot be reached" in port


UNNAMED = """
from delta_pipelines.dagster import DeltaPipelineResource

try:
    DeltaPipelineResource(warehouse={warehouse!r}).spark_session
except dp.SessionError as error:
    answer = str(error)
"""


def test_a_resource_that_names_no_catalog_gets_not_the_one_of_another(workers, server, warehouse):
    message = workers[0].do(UNNAMED.format(warehouse=str(warehouse)))
    assert f"uses the catalog {server.url}. This resource has no `catalog`" in message


def test_a_table_of_one_process_is_read_and_refreshed_by_the_other(workers) -> None:
    first, second = workers
    first.do(
        "p = scratch('shared'); mirror(p, 't', Feed('id INT', (1,), (2,)))\n"
        "p.view('v', 'SELECT id * 10 AS ten FROM t'); p.run(spark)"
    )
    assert second.do("answer = rows_of(spark, 'shared.v')") == [[10], [20]]
    version = second.do(
        "p = scratch('shared'); mirror(p, 't', Feed('id INT, v STRING', (3, 'x')))\n"
        "p.view('v', 'SELECT id * 10 AS ten FROM t')\n"
        "answer = p.run(spark).results['t'].version"
    )
    assert version == 1
    assert first.do("answer = rows_of(spark, 'shared.t')") == [[3, "x"]]
    assert first.do("answer = tables_of(spark, 'shared')") == ["t", "v"]


def test_two_pipelines_work_in_one_warehouse_and_read_each_other(workers) -> None:
    """Each makes a table in a schema that both use, at the same time."""
    code = "p = dp.Pipeline({0!r}, schema='common'); mirror(p, {0!r}, Feed('id INT', (1,)))"
    for worker, name in zip(workers, ("north", "south"), strict=True):
        worker.start(code.format(name) + "\nanswer = p.run(spark).success")
    assert [worker.answer() for worker in workers] == [True, True]
    read = (
        "q = dp.Pipeline('reader', schema='common'); q.source('common.north')\n"
        "q.materialized_view('both', 'SELECT id FROM north')\n"
        "answer = q.run(spark).success, rows_of(spark, 'common.both')"
    )
    assert workers[1].do(read) == [True, [[1]]]


def test_a_run_waits_for_a_run_of_another_process_and_then_plans_again(workers, warehouse) -> None:
    first, second = workers
    first.do("slow = scratch('waits'); mirror(slow, 't', Feed('id INT', (1,)))")
    second.do("quick = scratch('waits'); mirror(quick, 't', Feed('id INT', (2,)))")
    staged, go = (str(warehouse.parent / name) for name in ("staged", "go"))
    first.start(
        f"def hold():\n    Path({staged!r}).touch()\n"
        f"    while not Path({go!r}).exists(): time.sleep(0.05)\n"
        "with once_at(Step.COMMIT, 'waits.t', hold):\n    answer = run_one(slow, spark).version"
    )
    wait_for(Path(staged))
    status, error = second.do(
        "r = run_one(quick, spark, lease_timeout=0.5); answer = r.status, str(r.error)"
    )
    assert status == "failed"
    assert re.search(rf"run \w+ \(process {first.process.pid} on .*, since 20", error), error
    # The table does not exist in this one's plan, and does when its turn has come.
    second.start("r = run_one(quick, spark); answer = r.status, r.action, r.version, r.attempts")
    time.sleep(1)
    Path(go).touch()
    assert first.answer() == 0
    assert second.answer() == ["completed", "refresh", 1, 1]
    assert second.do("answer = rows_of(spark, 'waits.t')") == [[2]]


ASKED = [
    # what each process asks for -> the partitions that both together compute
    ("'2024-01-02..2024-01-04'", "'2024-01-03..2024-01-05'", "set(KEYS[1:])"),
    ("'2024-01-02'", "full_refresh=['t']", "set(KEYS)"),
]


def test_two_processes_refresh_partitions_of_one_table_at_once(workers) -> None:
    workers[0].do(
        "spark.sql('CREATE SCHEMA divided')\n"
        "daily = Daily.made(spark, 'divided')\ndaily.refreshed()"
    )
    workers[1].do("daily = Daily(spark, 'divided', {})")
    for number, (*asked, computed) in enumerate(ASKED):
        workers[0].do(f"daily.update('v{number}')")
        for worker, options in zip(workers, asked, strict=True):
            worker.start(f"answer = daily.refreshed({options})")
        done = {key for worker in workers for key in worker.answer()}
        assert workers[0].do(
            f"answer = daily.fresh() == {computed}, daily.refreshed(), daily.is_whole()"
        ) == [True, [key for key in KEYS if key not in done], True]
        assert workers[1].do("answer = len(daily.fresh())") == len(KEYS)


APART = """
apart = spark.newSession()
conf = apart._jsparkSession.sessionState().conf()
conf.setConfString("spark.sql.warehouse.dir", {warehouse!r})
assert apart.conf.get("spark.sql.warehouse.dir") == {warehouse!r}
def race(start):
    pipeline = scratch("apart")
    mirror(pipeline, "t", Feed("id INT", (1,)))
    time.sleep(max(0, start - time.time()))
    results = []
    try:
        with once_at(Step.COMMIT, "apart.t", lambda: time.sleep(3)):
            results.append(run_one(pipeline, apart, lease_timeout=0))
    except AssertionError:
        pass  # the one that has to wait does not come so far
    return results[0].status, type(results[0].error).__name__
answer = "ready"
"""


def test_two_sessions_with_one_catalog_and_two_warehouses_exclude_each_other(
    workers, tmp_path
) -> None:
    """The first race makes the schema and the table, the second one finds them."""
    for number, worker in enumerate(workers):
        worker.do(APART.format(warehouse=str(tmp_path / f"warehouse {number}")))
    for _ in range(2):
        start = time.time() + 2
        for worker in workers:
            worker.start(f"answer = race({start})")
        ends = sorted(tuple(worker.answer()) for worker in workers)
        assert ends == [("completed", "NoneType"), ("failed", "LeaseTimeoutError")]


@pytest.mark.promise(8)
@pytest.mark.parametrize(
    "rounds",
    [ROUNDS, pytest.param(SOAK_ROUNDS, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])],
)
def test_every_change_of_two_processes_is_there_exactly_once(
    workers, warehouse, rounds, record_property
) -> None:
    schema = f"rounds_{rounds}"
    started = time.monotonic()
    code = f"w = Writer(spark, {schema!r}, {{!r}})\n"
    workers[0].do(code.format("maker") + "[w.round(table, 0) for table in TABLES]")
    made = workers[0].do(ANSWER)
    for worker, name in zip(workers, ("a", "b"), strict=True):
        worker.start(code.format(name) + f"w.work({rounds})\n" + ANSWER)
    done = [made, *(worker.answer() for worker in workers)]
    counted = 0
    for table in ("ledger", "tally", "board"):
        operations = [
            Operation(**values) for each in done for name, values in each["done"] if name == table
        ]
        final = dict(workers[1].do(f"answer = rows_of(spark, '{schema}.{table}')"))
        log = read_log(warehouse / f"{schema}.db" / table)
        assert problems(operations, log, final) == []
        counted += len(log)
    assert counted == 2 * rounds + 3
    # Runs take turns: none ever finds another one in its way.
    assert max(each["attempts"] for each in done) == 1
    record_property(
        "proved",
        f"2 processes x {rounds} rounds: {counted} commits, each once at the first attempt, "
        f"{time.monotonic() - started:.0f} s",
    )


ANSWER = """
import dataclasses
done = [[table, dataclasses.asdict(operation)] for table, operation in w.done]
answer = {"done": done, "attempts": w.attempts}
"""


def test_a_run_killed_in_mid_write_leaves_nothing_that_blocks_the_next(workers) -> None:
    first, second = workers
    declared = (
        "feed = Feed('id INT, v STRING', (1, 'new'), (2, 'b'))\n"
        "p = scratch({0!r}); mirror(p, 't', feed, comment='made')\n"
        "merged(p, 'u', feed, keys=['id'])\n"
    )
    before = declared.replace("'new'", "'old'").replace("'made'", "'first'")
    second.do(before.format("killed") + "p.run(spark)\n" + before.format("clean") + "p.run(spark)")
    first.start(
        declared.format("killed")
        + "with once_at(Step.COMMIT, 'killed.t', lambda: os.kill(os.getpid(), signal.SIGKILL)):\n"
        "    p.run(spark, max_concurrency=1)"
    )
    assert first.process.wait(timeout=120) == -signal.SIGKILL
    # A silent machine would be given a minute; here it is seen that the process and its JVM, which
    # ends moments later and may finish a commit until then, are gone.
    status = second.do(
        declared.format("killed") + "r = p.run(spark, lease_timeout=30.0)\n"
        "answer = r.success, max(x.attempts for x in r.results.values())"
    )
    assert status == [True, 1]
    same = second.do(
        declared.format("clean") + "p.run(spark)\n"
        "answer = [seen(spark, f'killed.{t}').content == seen(spark, f'clean.{t}').content\n"
        "          for t in 'tu']"
    )
    assert same == [True, True]
