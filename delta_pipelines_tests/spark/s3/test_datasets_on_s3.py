"""Datasets in a warehouse on S3, files on S3 as their input, the command and Dagster.

The tests share one process.
"""

import json

import pytest

from delta_pipelines_tests.spark.s3.conftest import WAREHOUSE
from delta_pipelines_tests.support.s3_server import BUCKET, client

LANDING = f"s3a://{BUCKET}/landing"


@pytest.fixture(scope="module")
def process(start):
    worker = start("datasets")
    assert worker.answer() == "open"
    worker.do(
        "def statuses(result):\n"
        "    return {name: each.status if each.error is None else str(each.error)\n"
        "            for name, each in result.results.items()}"
    )
    return worker


def put(store, key: str, *rows: dict[str, object]) -> None:
    text = "\n".join(map(json.dumps, rows))
    client(store.port).put_object(Bucket=BUCKET, Key=f"landing/{key}", Body=text.encode())


FILES = f"""
def from_files():
    p = dp.Pipeline("files", schema="files")
    @p.materialized_view
    def counted(spark):
        files = spark.read.format("json").schema("id INT, v STRING")
        return files.load("{LANDING}/a").selectExpr("count(*) AS n")
    p.create_streaming_table("both")
    for number, folder in enumerate(("a", "b")):
        @p.append_flow(target="both", name=f"flow{{number}}")
        def flow(spark, folder=folder):
            files = spark.readStream.format("json").schema("id INT, v STRING")
            return files.load(f"{LANDING}/{{folder}}").selectExpr("id", "v", f"'{{folder}}' AS f")
    return p

def run_files(**options):
    return statuses(from_files().run(spark, raise_on_error=False, **options))

def content():
    return {{name: sorted(rows_of(spark, f"files.{{name}}")) for name in ("counted", "both")}}
"""
DONE = {"counted": "completed", "both": "completed"}
SAME = dict.fromkeys(DONE, "unchanged")


@pytest.fixture(scope="module")
def files(process, store):
    """The process, in which a view and two flows have read the files that are there."""
    put(store, "a/first file.json", {"id": 1, "v": "x"})
    put(store, "a/day=1%20 ä.json", {"id": 2, "v": "y"})
    put(store, "a/{odd}[1].json", {"id": 3, "v": "z"})
    put(store, "b/b.json", {"id": 7, "v": "z"})
    process.do("spark.sql('CREATE SCHEMA files')\n" + FILES)
    assert process.do("answer = run_files()") == DONE
    return process


def test_new_files_are_read_once_whatever_their_names(files, store) -> None:
    assert files.do("answer = run_files()") == SAME
    both = [[1, "x", "a"], [2, "y", "a"], [3, "z", "a"], [7, "z", "b"]]
    assert files.do("answer = content()") == {"counted": [[3]], "both": both}

    put(store, "a/second file.json", {"id": 4, "v": "w"})
    assert files.do("answer = run_files()") == DONE
    assert files.do("answer = run_files()") == SAME
    both = sorted([*both, [4, "w", "a"]])
    assert files.do("answer = content()") == {"counted": [[4]], "both": both}

    reset = files.do("answer = run_files(reset_checkpoints=['flow1'], refresh=['both'])")
    assert reset == {"both": "completed"}
    again = sorted([*both, [7, "z", "b"]])
    assert files.do("answer = content()")["both"] == again
    full = files.do("answer = run_files(full_refresh=['both'], refresh=['both'])")
    assert full == {"both": "completed"}
    assert files.do("answer = content()")["both"] == both
    assert files.do("answer = run_files()") == SAME


def test_a_moved_folder_of_files_is_refused(files, store) -> None:
    put(store, "c/moved.json", {"id": 1, "v": "x"})
    moved = FILES.replace('("a", "b")', '("c", "b")').replace("def from_files", "def moved")
    files.do(moved.partition("def run_files")[0])
    problem = files.do(
        "answer = statuses(moved().run(spark, refresh=['both'], raise_on_error=False))"
    )["both"]
    assert f"{LANDING}/c" in problem
    assert files.do("answer = run_files()") == SAME


STAGED = """
def staged(v):
    p = dp.Pipeline("staged", schema="staged")
    p.source("landing")
    @p.streaming_table(inputs={"landing": "landing"})
    def landed(landing):
        return landing.selectExpr("id", f"'{v}' AS v")
    return p

def fail():
    raise ValueError("stopped before the commit")

def below(part):
    folder = spark._jvm.org.apache.hadoop.fs.Path(f"{WAREHOUSE}/{part}")
    files = folder.getFileSystem(spark._jsc.hadoopConfiguration())
    return [str(found.getPath().toString()) for found in files.globStatus(folder) or []]
"""


def test_a_full_refresh_by_streams_that_fails_leaves_nothing_to_the_next_one(process) -> None:
    process.do(f"WAREHOUSE = {WAREHOUSE!r}\n{STAGED}")
    process.do(
        "spark.sql('CREATE SCHEMA staged')\n"
        "spark.sql('CREATE TABLE staged.landing USING delta AS SELECT id FROM range(3)')"
    )
    folders = "answer = below('_delta_pipelines/*/_checkpoints/staged.landed/*/*')"
    assert process.do("answer = statuses(staged('a').run(spark))") == {"landed": "completed"}
    before = process.do(folders)
    assert len(before) == 1
    failed = process.do(
        "with once_at(Step.COMMIT, 'staged.landed', fail):\n"
        "    failed = staged('b').run(spark, full_refresh=['landed'], raise_on_error=False)\n"
        "answer = statuses(failed)['landed'], sorted(rows_of(spark, 'staged.landed'))"
    )
    assert "stopped before the commit" in failed[0]
    assert failed[1] == [[0, "a"], [1, "a"], [2, "a"]]
    again = "answer = statuses(staged('b').run(spark, full_refresh=['landed']))"
    assert process.do(again) == {"landed": "completed"}
    assert process.do("answer = sorted(rows_of(spark, 'staged.landed'))") == [
        [0, "b"],
        [1, "b"],
        [2, "b"],
    ]
    assert process.do("answer = statuses(staged('b').run(spark))") == {"landed": "unchanged"}
    found = process.do("answer = [below('staged.db/*'), below('_delta_pipelines/*/*')]")
    names = {path.rsplit("/", 1)[-1] for paths in found for path in paths}
    assert names <= {"landing", "landed", "_delta_pipelines", "_checkpoints", "_staged"}
    assert process.do("answer = below('_delta_pipelines/*/_staged/*/*')") == []


DAILY = """
from delta_pipelines_tests.support.daily_tables import Daily
daily = Daily.made(spark, "daily", layout="PARTITIONED BY (day)")
def partitions(**options):
    return statuses(daily.pipeline.run(spark, raise_on_error=False, **options))

def content_of_days():
    return sorted((id, v) for day, id, v in rows_of(spark, "daily.t"))
"""


def test_a_backfill_of_a_range_writes_only_its_partitions(process) -> None:
    process.do("spark.sql('CREATE SCHEMA daily')\n" + DAILY)
    january = "partitions(partitions='2024-01-02..2024-01-03')"
    assert process.do(f"answer = {january}") == {"t": "completed"}
    assert process.do("answer = content_of_days()") == [[2, "old"], [3, "old"]]
    assert process.do(f"answer = {january}") == {"t": "unchanged"}
    assert process.do("answer = partitions()") == {"t": "completed"}
    assert process.do("answer = len(rows_of(spark, 'daily.t'))") == 5
    process.do("daily.update('new', 4)")
    assert process.do(f"answer = {january}") == {"t": "unchanged"}
    assert process.do("answer = partitions()") == {"t": "completed"}
    assert process.do("answer = partitions()") == {"t": "unchanged"}
    days = [[1, "old"], [2, "old"], [3, "old"], [4, "new"], [5, "old"]]
    assert process.do("answer = content_of_days()") == days


OUTSIDE = """
def outside(least):
    p = dp.Pipeline("outside", schema="outside")
    p.source("fed")
    @p.materialized_view
    @p.expect("large", f"id > {least}")
    @p.expect_or_drop("small", "id < 100")
    def checked(fed):
        return fed
    @p.upsert(keys=["id"], sequence_by="_commit_version", inputs={"fed": dp.Changes("fed")},
              deletes_when="_change_type = 'delete'")
    def kept(fed):
        return fed.where("_change_type <> 'update_preimage'")
    return p
"""


def test_expectations_and_changes_in_a_schema_with_a_location(process, store) -> None:
    location = f"s3a://{BUCKET}/elsewhere/of the team"
    process.do(
        f"spark.sql(\"CREATE SCHEMA outside LOCATION '{location}'\")\n"
        "spark.sql('CREATE TABLE outside.fed (id INT) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)')\n"
        "spark.sql('INSERT INTO outside.fed VALUES (1), (2), (300)')\n" + OUTSIDE
    )
    result = process.do(
        "result = outside(1).run(spark)\n"
        "answer = statuses(result), [[e.name, e.rows, e.broken]\n"
        "                            for e in result.results['checked'].expectations]"
    )
    assert result[0] == {"checked": "completed", "kept": "completed"}
    assert sorted(result[1]) == [["large", 3, 1], ["small", 3, 1]]
    process.do(
        "spark.sql('DELETE FROM outside.fed WHERE id = 2')\n"
        "spark.sql('INSERT INTO outside.fed VALUES (5)')"
    )
    changed = process.do("answer = statuses(outside(1).run(spark))")
    assert changed == {"checked": "completed", "kept": "completed"}
    again = process.do("answer = statuses(outside(1).run(spark))")
    assert again == {"checked": "unchanged", "kept": "unchanged"}
    assert process.do("answer = rows_of(spark, 'outside.checked')") == [[1], [5]]
    kept = process.do("answer = sorted(r.id for r in spark.table('outside.kept').collect())")
    assert kept == [1, 5, 300]
    assert process.do("r = outside(1).maintain(spark); answer = r.success or str(r)") is True
    listed = client(store.port).list_objects_v2(Bucket=BUCKET, Prefix="elsewhere/")["Contents"]
    roots = {"/".join(each["Key"].split("/")[2:3]) for each in listed} - {""}
    assert roots == {"fed", "checked", "kept", "_delta_pipelines"}


SHOP = """
import delta_pipelines as dp

shop = dp.Pipeline("shop", schema="shop")
shop.source("landing.goods")
shop.materialized_view("orders", "SELECT id FROM landing.goods")
shop.materialized_view("counted", "SELECT count(*) AS n FROM orders")
"""
COMMAND = f"""
from click.testing import CliRunner
from delta_pipelines.cli.commands import cli
from delta_pipelines.cli.console import Credentials

def command(*words):
    conf = [f"--conf={{key}}={{value}}" for key, value in settings.items()]
    place = ["--warehouse", {WAREHOUSE!r}, "--catalog", catalog]
    done = CliRunner().invoke(cli, [*words, *place, *conf], obj=Credentials())
    return done.exit_code, done.output + str(done.exception or "")
"""


@pytest.fixture(scope="module")
def shop(process):
    """The process, which has the pipeline `shop` and its source."""
    process.do(
        f"Path('shop.py').write_text({SHOP!r})\n"
        "import sys; sys.path.insert(0, '.')\n"
        "from shop import shop\n"
        "spark.sql('CREATE SCHEMA landing')\n"
        "spark.sql('CREATE TABLE landing.goods USING delta AS SELECT id FROM range(3)')"
    )
    return process


def test_the_command_plans_runs_maintains_and_shows_the_history(shop) -> None:
    shop.do(COMMAND)
    code, text = shop.do("answer = command('plan', 'shop.py:shop')")
    assert code == 0, text
    assert "create" in text
    code, text = shop.do("answer = command('run', 'shop.py:shop')")
    assert code == 0, text
    code, text = shop.do("answer = command('run', 'shop.py:shop')")
    assert code == 0, text
    assert "unchanged" in text
    code, text = shop.do("answer = command('history', 'shop.py:shop', 'orders')")
    assert code == 0, text
    assert "WRITE" in text
    code, text = shop.do("answer = command('maintain', 'shop.py:shop')")
    assert code == 0, text


DAGSTER = f"""
import dagster as dg
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines_tests.dagster.running import materialize
instance = dg.DagsterInstance.ephemeral()
lake = DeltaPipelineResource(warehouse={WAREHOUSE!r}, catalog=catalog, spark_config=settings)
defs = build_pipeline_definitions(shop, spark=lake, refresh_on_source_change=True)

def refreshes():
    done = materialize(shop, lake, instance)
    assert done.success, done.log
    return {{name: done[name]["delta_pipelines/refresh"] for name in done.names}}

def observed():
    [sources] = [each for each in defs.assets if each.op.name.endswith("_sources")]
    job = dg.define_asset_job("observing", selection=dg.AssetSelection.assets(*sources.keys))
    jobs = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    done = jobs.resolve_job_def("observing").execute_in_process(instance=instance)
    [event] = done.get_asset_observation_events()
    seen = event.asset_observation_data.asset_observation
    return seen.metadata["dagster/uri"].value, seen.data_version

cursor = None
def tick():
    global cursor
    sensor = defs.resolve_sensor_def("shop_source_sensor")
    with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs) as context:
        result = sensor.evaluate_tick(context)
    cursor = result.cursor
    asked = [sorted(key.path[-1] for key in each.asset_selection) for each in result.run_requests]
    return asked, result.skip_message
"""


def test_a_run_of_dagster_and_the_sensor_with_its_observations(shop) -> None:
    shop.do(DAGSTER)
    assert set(shop.do("answer = refreshes()").values()) <= {"create", "unchanged"}
    assert set(shop.do("answer = refreshes()").values()) == {"unchanged"}

    asked, reason = shop.do("answer = tick()")
    assert asked == []
    assert "landing.goods" in reason
    assert "observe" in reason
    uri, version = shop.do("answer = observed()")
    assert uri == f"{WAREHOUSE}/landing.db/goods"
    assert shop.do("answer = tick()")[0] == [["counted", "orders"]]
    assert shop.do("answer = observed()") == [uri, version]
    asked, reason = shop.do("answer = tick()")
    assert asked == []
    assert "For 1 of 1 sources the last observation or materialization counts" in reason
    shop.do("spark.sql('INSERT INTO landing.goods VALUES (9)')")
    assert shop.do("answer = tick()")[0] == []
    assert shop.do("answer = observed()[1]") != version
    assert shop.do("answer = tick()")[0] == [["counted", "orders"]]
    assert shop.do("answer = refreshes()")["orders"] == "refresh"
    shop.do("spark.sql('OPTIMIZE landing.goods')")
    shop.do("observed()")
    assert shop.do("answer = tick()")[0] == []
