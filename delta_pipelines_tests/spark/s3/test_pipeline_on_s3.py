"""A pipeline whose warehouse is on S3: the same rows, plans and history as on a disk.

The tests share one process and stand in an order.
"""

import pytest

from delta_pipelines_tests.support.s3_server import BUCKET, KEY, SECRET, client

DECLARED = """
def declared(rows, columns="id, v"):
    p = dp.Pipeline("shop", schema="shop")
    values = "SELECT * FROM VALUES " + ", ".join(map(str, rows)) + f" AS t({columns})"
    p.materialized_view("orders", values)
    p.materialized_view("sums", "SELECT v, count(*) AS n FROM orders GROUP BY v")
    p.upsert("latest", values, keys=["id"])
    skipping = dp.Stream("landing", skip_change_commits=True)
    p.source("landing")
    @p.streaming_table(inputs={"landing": skipping})
    def landed(landing):
        return landing
    p.view("names", "SELECT DISTINCT v FROM orders")
    return p

def statuses(result):
    return {name: each.status if each.error is None else str(each.error)
            for name, each in result.results.items()}

def content():
    return {t: sorted(rows_of(spark, f"shop.{t}")) for t in ("orders", "sums", "latest", "landed")}
"""


@pytest.fixture(scope="module")
def process(start):
    worker = start("pipeline")
    assert worker.answer() == "open"
    worker.do(DECLARED)
    worker.do(
        "spark.sql('CREATE SCHEMA shop')\n"
        "spark.sql('CREATE TABLE shop.landing USING delta AS SELECT id FROM range(3)')"
    )
    return worker


@pytest.mark.promise(8)
def test_a_second_run_finds_nothing_new_and_further_runs_only_what_is_new(process) -> None:
    process.do("first = declared([(1, 'a'), (2, 'b')])")
    names = ("orders", "sums", "latest", "landed", "names")
    assert process.do("answer = statuses(first.run(spark))") == dict.fromkeys(names, "completed")
    again = process.do("answer = statuses(first.run(spark))")
    assert again == dict.fromkeys(names, "unchanged")
    process.do("spark.sql('INSERT INTO shop.landing VALUES (10)')")
    third = process.do("answer = statuses(first.run(spark))")
    assert third == dict.fromkeys(names, "unchanged") | {"landed": "completed"}
    assert process.do("answer = content()")["landed"] == [[0], [1], [2], [10]]


def test_drift_restore_full_refresh_and_maintenance(process) -> None:
    more = "declared([(2, 'c', 7), (3, 'c', 8)], 'id, v, n')"
    changed = process.do(f"answer = statuses({more}.run(spark))")
    assert set(changed.values()) == {"completed", "unchanged"}
    assert process.do("answer = content()") == {
        "orders": [[2, "c", 7], [3, "c", 8]],
        "sums": [["c", 2]],
        "latest": [[1, "a", None], [2, "c", 7], [3, "c", 8]],
        "landed": [[0], [1], [2], [10]],
    }
    process.do("spark.sql('RESTORE shop.orders TO VERSION AS OF 0')")
    process.do(f"answer = statuses({more}.run(spark))")
    assert process.do("answer = content()")["orders"] == [[2, "c", 7], [3, "c", 8]]
    wiped = process.do(f"answer = statuses({more}.run(spark, full_refresh_all=True))")
    assert wiped == dict.fromkeys(wiped, "completed") | {"names": "unchanged"}
    assert process.do("answer = content()")["latest"] == [[2, "c", 7], [3, "c", 8]]
    assert process.do(f"r = {more}.maintain(spark); answer = r.success or str(r)") is True
    assert set(process.do(f"answer = statuses({more}.run(spark))").values()) == {"unchanged"}


def test_the_history_of_a_table_is_read_from_s3(process) -> None:
    operations = process.do(
        "answer = [row.operation for row in spark.sql('DESCRIBE HISTORY shop.latest').collect()]"
    )
    assert operations


def test_leases_and_checkpoints_stay_below_the_warehouse(process, store) -> None:
    listed = client(store.port).list_objects_v2(Bucket=BUCKET)["Contents"]
    roots = {"/".join(each["Key"].split("/")[:2]) for each in listed}
    assert roots == {"warehouse/shop.db", "warehouse/_delta_pipelines"}
    records = [each["Key"] for each in listed if each["Key"].endswith("creates_exclusively")]
    assert records == ["warehouse/shop.db/_delta_pipelines/creates_exclusively"]


def test_credentials_appear_nowhere(process) -> None:
    shown, jvm = process.do(
        "from delta_pipelines.delta.jvm.driver_jvm import jvm_pid\n"
        "r = scratch('secrets'); r.materialized_view('bad', 'SELECT nope FROM range(1)')\n"
        "failed = r.run(spark, raise_on_error=False)\n"
        "settings = spark.sparkContext.getConf().getAll(), spark.sql('SET -v').collect()\n"
        "command = Path(f'/proc/{jvm_pid()}/cmdline').read_text()\n"
        "answer = str(settings) + str(failed), command"
    )
    for text in (shown, jvm, process.errors.read_text()):
        assert SECRET not in text
        assert KEY not in text
