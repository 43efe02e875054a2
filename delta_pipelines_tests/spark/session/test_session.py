"""Sessions with a real Spark: one per process, one process per catalog, nothing left around."""

import json
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, udf

from delta_pipelines.errors import SessionError
from delta_pipelines.session import check_session, get_session
from delta_pipelines_tests.support.spark_programs import PREAMBLE, Run, running_programs
from delta_pipelines_tests.support.spark_workers import Worker


@pytest.fixture
def run(tmp_path: Path, process_settings: dict[str, str]) -> Iterator[Run]:
    with running_programs(tmp_path, process_settings) as start:
        yield start


def test_a_udf_runs_on_the_drivers_python(spark: SparkSession) -> None:
    interpreter = udf(lambda _: sys.executable)
    assert spark.range(1).select(interpreter("id")).first() == (sys.executable,)


def test_an_error_of_a_query_is_raised_and_not_printed_too(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """PySpark's loggers would print it as JSON, with whatever secret stands in the query."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        caplog.set_level(logging.getLogger(name).level, logger=name)  # puts the handler there
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql("SELECT no_such_column")
    with pytest.raises(ArithmeticException):
        spark.range(1).select(col("id") / lit(0)).collect()
    assert [record.name for record in caplog.records if "QueryContext" in record.name] == []


def test_tables_are_delta_and_stand_in_the_warehouse(
    spark: SparkSession, schema: str, warehouse: Path
) -> None:
    spark.sql(f"CREATE TABLE {schema}.t USING delta AS SELECT 1 AS a")
    assert (warehouse / f"{schema}.db" / "t" / "_delta_log").is_dir()
    assert spark.table(f"{schema}.t").first() == (1,)


def test_the_suites_session_is_set_up_for_delta(spark: SparkSession) -> None:
    check_session(spark)
    check_session(spark.newSession())


def test_a_second_call_returns_the_live_session(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get_session(warehouse) is spark
    monkeypatch.chdir(warehouse.parent)
    assert get_session(f"./{warehouse.name}", lock_timeout=0) is spark


def test_another_warehouse_is_refused_while_a_session_is_live(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    refusal = r"This process already has a session over.*spark\.stop\(\)"
    with pytest.raises(SessionError, match=refusal) as caught:
        get_session(tmp_path)
    assert str(warehouse) in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_spark_reads_at_its_start_cannot_be_changed_later(
    spark: SparkSession, warehouse: Path, spark_settings: dict[str, str]
) -> None:
    with pytest.raises(SessionError, match=r"other values of spark\.sql\.extensions\. Spark"):
        get_session(warehouse, config={"spark.sql.extensions": "com.acme.Own"})
    assert get_session(warehouse, config=spark_settings) is spark


def test_a_setting_of_queries_can_be_changed_later(spark: SparkSession, warehouse: Path) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    try:
        assert before is not None
        for asked in ("5", "6", before):  # the last as at the session's start
            get_session(warehouse, config={key: asked})
            assert spark.conf.get(key) == asked
        spark.conf.set(key, "7")
        get_session(warehouse)
        assert spark.conf.get(key) == "7"  # no call asked for another value
    finally:
        spark.conf.set(key, str(before))


def test_a_catalog_goes_from_process_to_process(run: Run, tmp_path: Path) -> None:
    holder = run("""
spark = session("../warehouse")
spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a")
say(os.getpid())
wait_for_line()
""")
    [pid] = holder.says()

    impatient = run('say(refused(session, "../warehouse", lock_timeout=1))')
    [message] = impatient.says()
    assert str(message).startswith("CatalogLockedError: The catalog in ")
    assert f"in use by process {pid} (python)" in str(message)
    assert "Waiting for the catalog" in impatient.errors.read_text()

    waiting = run(
        """
import logging
class Announce(logging.Handler):
    def emit(self, record):
        say(record.getMessage())
logging.getLogger("delta_pipelines").addHandler(Announce())
spark = session("../warehouse", lock_timeout=120)
say("got it", spark.table("t").collect())
wait_for_line()
spark.stop()
say("stopped")
wait_for_line()
""",
        "waiting",
    )
    assert f"in use by process {pid}" in str(waiting.says())
    holder.process.send_signal(signal.SIGKILL)
    said = waiting.says()
    while "Waiting for the catalog" in str(said):  # for the killed holder's JVM
        said = waiting.says()
    assert said == ["got it", [[1]]]

    waiting.go()
    assert waiting.says() == ["stopped"]
    last = run('say(session("../warehouse", lock_timeout=0).table("t").collect())', "last")
    assert last.says() == [[[1]]]
    last.end()
    waiting.go()
    waiting.end()


def test_a_copied_warehouse_is_refused_until_it_is_relocated(run: Run) -> None:
    program = run("""
import pathlib
import shutil
import delta_pipelines as dp
from delta_pipelines.session import relocate_warehouse

shop = dp.Pipeline("shop", schema="sales")
shop.source("landing")
@shop.streaming_table
def sold(landing):
    return landing
shop.materialized_view("total", "SELECT sum(n) AS n FROM sold")
shop.view("shown", "SELECT n FROM total")

def rows():
    listed = [sorted(r.n for r in spark.table(f"sales.{name}").collect()) for name in NAMES]
    return [*listed, [c.version for c in spark.sql("DESCRIBE HISTORY sales.sold").collect()]]

NAMES = ("landing", "sold", "total", "shown")

def files():
    return {str(path): path.stat().st_mtime_ns for path in pathlib.Path(first).rglob("*.parquet")}

first = "the first ü 50%"
spark = session(first)
spark.sql("CREATE SCHEMA sales")
spark.sql("CREATE TABLE sales.landing (n INT) USING delta")
spark.sql("INSERT INTO sales.landing VALUES (1)")
spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS n")
shop.run(spark)
made = rows()
spark.stop()
shutil.copytree(first, "copy")
before = files()

say(refused(session, "copy"))
say(relocate_warehouse("copy", config=settings) > 5, relocate_warehouse("copy", config=settings))
spark = session("copy")
say(refused(relocate_warehouse, "copy", config=settings))
unchanged = [r.status for r in shop.run(spark).results.values()]
spark.sql("INSERT INTO sales.landing VALUES (2)")
spark.sql("INSERT INTO t VALUES (2)")
spark.sql("CREATE TABLE sales.new USING delta AS SELECT 1 AS n")
shop.run(spark)
say(made, unchanged, rows(), files() == before != {})
""")
    [refusal] = program.says()
    assert "still has the table locations in" in refusal
    assert "the first ü 50%" in refusal
    assert refusal.endswith("/copy` once.")
    assert program.says() == [True, 0]
    assert "in a process of its own" in str(program.says())
    made, unchanged, copied, original_is_untouched = program.says()
    assert made == [[1], [1], [1], [1], made[4]]
    assert set(unchanged) == {"unchanged"}
    assert copied == [[1, 2], [1, 2], [3], [3], [made[4][0] + 1, *made[4]]]
    assert original_is_untouched is True
    program.end()
    assert program.errors.read_text().count("the catalog now names its tables here") == 1


def test_a_spark_that_has_the_catalog_without_our_lock_is_named(run: Run) -> None:
    stranger = run("""
from pyspark.sql import SparkSession
os.makedirs("../warehouse/_metastore")
builder = SparkSession.builder
for key, value in spark_config("../warehouse", extra=settings).items():
    builder = builder.config(key, value)
builder.getOrCreate().sql("SHOW TABLES").collect()
from pyspark import SparkContext
say(SparkContext._gateway.proc.pid)
wait_for_line()
""")
    [jvm] = stranger.says()
    ours = run(
        """
from delta_pipelines.session.start import start_spark
say(refused(session, "../warehouse", lock_timeout=0.5))
config = spark_config("../warehouse", extra=settings)
say(refused(start_spark, config, None))  # as when the stranger comes between our look and Derby's
""",
        "ours",
    )
    [looked] = ours.says()
    assert f"process {jvm}, which opened the database without the lock of" in str(looked)
    [started] = ours.says()
    assert str(started).startswith("CatalogLockedError: The catalog in ")
    assert "end that process" in str(started)
    assert "\n" not in str(started)


def test_a_session_that_someone_else_built_is_checked_and_never_replaced(run: Run) -> None:
    program = run("""
from pyspark.sql import SparkSession
plain = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
say(refused(check_session, plain), refused(session, "tables"))
say(plain.range(3).count(), os.path.exists("tables"))
plain.stop()
settings["spark.sql.catalogImplementation"] = "in-memory"
spark = session("tables")
check_session(spark)
spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a")
say(spark.table("t").collect(), sorted(os.listdir(".")), sorted(os.listdir("tables")))
from delta_pipelines.delta.catalog.entries import catalog_entries
from delta_pipelines.model.identifiers import Identifier
named = [Identifier(None, "default", name) for name in ("t", "nothing")]
say([entry.table is not None for entry in catalog_entries(spark, named).values()])
""")
    lacking, replaced = map(str, program.says())
    assert "`io.delta.sql.DeltaSparkSessionExtension` to `spark.sql.extensions`" in lacking
    assert "set `spark.sql.catalog.spark_catalog`" in lacking
    assert "a live Spark session that `get_session` did not build" in replaced
    assert program.says() == [3, False]
    assert program.says() == [[[1]], ["tables"], ["t"]]
    assert program.says() == [[True, False]]
    program.end()


def test_without_shortcuts_a_pipeline_does_the_same(run: Run) -> None:
    program = run("""
import delta_pipelines as dp
from delta_pipelines.delta.catalog.hive_metastore_query import database_of
from delta_pipelines.delta.jvm.bridge import Jvm
settings["spark.delta_pipelines.shortcuts"] = "false"
spark = session("tables")
shop = dp.Pipeline("shop", schema="sales")
shop.materialized_view("orders", "SELECT 1 AS id, 2 AS n")
shop.upsert("kept", "SELECT * FROM orders", keys=["id"])
shop.view("shown", "SELECT * FROM kept")
for _ in range(2):
    say([r.status for r in shop.run(spark).results.values()])
say([list(row) for row in spark.table("sales.shown").collect()])
say(database_of(Jvm(spark)) is None, "SharedArchive" in spark.conf.get(
    "spark.driver.extraJavaOptions"))
""")
    assert program.says() == [["completed"] * 3]
    assert program.says() == [["unchanged"] * 3]
    assert program.says() == [[[1, 2]]]
    assert program.says() == [True, False]
    program.end()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, process_settings: dict[str, str]):
    """A process that the tests below use one after the other; no Spark runs in between."""
    folder = tmp_path_factory.mktemp("one process") / "cwd"
    worker = Worker(folder, PREAMBLE, {"SPARK_SETTINGS": json.dumps(process_settings)})
    yield worker
    worker.end()


def test_a_start_that_fails_says_so_and_frees_the_catalog(process: Worker) -> None:
    message = process.do("""
own = settings["spark.driver.extraJavaOptions"]
settings["spark.driver.extraJavaOptions"] = "-Xmx64m"
answer = refused(session, "failed")
settings["spark.driver.extraJavaOptions"] = own
""")
    assert message.startswith("SessionError: Spark did not start: ")
    assert "`config`" in message
    count = """
spark = session("failed", lock_timeout=0)
answer = spark.range(2).count()
spark.stop()
"""
    assert process.do(count) == 2


def test_one_process_has_one_warehouse_after_another_and_leaves_nothing_around(
    process: Worker,
) -> None:
    earlier = len(process.errors.read_text())
    before = set(process.do("answer = os.listdir('.')"))
    rows, beside, inside = process.do("""
spark = session("my tables")
spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a")
spark.sql("CREATE VIEW v AS SELECT a + 1 AS b FROM t")
answer = spark.table("v").collect(), os.listdir("."), sorted(os.listdir("my tables"))
spark.stop()
""")
    assert (rows, inside) == ([[2]], ["_metastore", "t"])
    assert set(beside) - before == {"my tables"}
    assert not process.do("answer = os.path.exists('my tables/_metastore/derby.holder.json')")
    tables, beside = process.do("""
stopped, spark = spark, session("other")
stopped.stop()  # a second time, which must not end the new session
answer = [t.name for t in spark.catalog.listTables()], os.listdir(".")
spark.stop()
""")
    assert (tables, set(beside) - before) == ([], {"my tables", "other"})
    log_lines = process.errors.read_text()[earlier:].splitlines()
    assert [line for line in log_lines if re.search(r" (WARN|ERROR) ", line)] == []


def test_a_session_that_someone_else_built_serves_where_ours_would_be_the_same(
    process: Worker,
) -> None:
    elsewhere, same, fixed = process.do("""
from pyspark.sql import SparkSession
builder = SparkSession.builder
for key, value in spark_config("tables", extra=settings).items():
    builder = builder.config(key, value)
theirs = builder.getOrCreate()
elsewhere = refused(session, "elsewhere")
settings["spark.sql.shuffle.partitions"] = "3"
ours = session("tables")
same = ours.sparkContext is theirs.sparkContext, theirs.conf.get("spark.sql.shuffle.partitions")
settings["spark.driver.memory"] = "7g"
answer = elsewhere, same, refused(session, "tables")
ours.sql("CREATE TABLE t USING delta AS SELECT 1 AS a")
theirs.stop()
""")
    assert "a live Spark session that `get_session` did not build" in elsewhere
    assert same == [True, "3"]
    assert "did not build" in fixed
