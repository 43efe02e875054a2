import os
import time

import pytest

from delta_pipelines_tests.dagster.webserver import TERMINATE, Webserver

# The tests share one server, and go on where the test before stopped: all of them run.
pytestmark = [pytest.mark.promise(7), pytest.mark.dagster_dev, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("landing") / "numbers.txt"
    path.write_text("a\nb\n")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("dagster_home")
    environment = {
        "TEST_WAREHOUSE": str(folder / "warehouse"),
        "TEST_NUMBERS": str(numbers),
        "TEST_ACTIVE": str(folder / "active"),
        "TEST_FEED": str(folder / "feed"),
        "TEST_BROKEN": str(folder / "broken"),
    }
    with Webserver(folder, **environment) as webserver:
        yield webserver


def test_runs_from_the_ui_refresh_and_refresh_fully(server, numbers):
    status, first = server.run("small_refresh")
    assert status == "SUCCESS"
    assert set(first) == {"numbers", "kept", "copied", "first_ones"}
    assert first["numbers"]["dagster/row_count"] == 2
    assert first["numbers"]["delta_pipelines/refresh"] == "create"

    numbers.write_text("b\nc\n")
    config = {"ops": {"small": {"config": {"full_refresh": ["numbers", "kept"]}}}}
    status, second = server.run("small_refresh", config)
    assert status == "SUCCESS"
    assert second["numbers"]["delta_pipelines/refresh"] == "full refresh"
    assert second["kept"]["delta_pipelines/refresh"] == "refresh (full refresh not allowed)"
    assert second["kept"]["delta_pipelines/rows_inserted"] == 1
    for name in ("numbers", "kept"):
        key = "delta_pipelines/version"
        assert second[name][key] == first[name][key] + 1


def test_schedules_and_a_sensor_start_runs_that_do_not_disturb_each_other(server, numbers):
    """Both schedules at the same minute, and the sensor of a pipeline that reads the first one."""
    numbers.write_text("d\n")
    time.sleep(max(0, time.time() % 60 - 50))
    names = ("small_refresh_schedule", "small_full_refresh_schedule")
    on = [server.turn_on("schedule", name) for name in names]
    sensor = server.turn_on("sensor", "reader_source_sensor")
    refresh, full = (server.run_of("schedule", name) for name in names)
    for state in on:
        server.turn_off("schedule", state)
    sensed = server.run_of("sensor", "reader_source_sensor")
    server.turn_off("sensor", sensor)

    status, merged = server.wait(refresh)
    assert status == "SUCCESS"
    status, refreshed = server.wait(full)
    assert status == "SUCCESS"
    assert refreshed["numbers"]["delta_pipelines/refresh"] == "full refresh"
    # Whichever run had its turn first merged the one new row, and the other found it there.
    kept = [run["kept"] for run in (merged, refreshed)]
    inserted = [run.get("delta_pipelines/rows_inserted", 0) for run in kept]
    assert sorted(inserted) == [0, 1]
    assert [run["delta_pipelines/refresh"] for run in kept] == [
        "refresh" if inserted[0] else "unchanged",
        f"{'refresh' if inserted[1] else 'unchanged'} (full refresh not allowed)",
    ]
    assert refreshed["numbers"]["dagster/row_count"] == 1
    assert refreshed["copied"]["dagster/row_count"] == len("abcd")
    status, downstream = server.wait(sensed)
    assert status == "SUCCESS"
    assert set(downstream) == {"counted"}


def test_a_retry_from_failure_goes_on_where_the_run_stopped(server):
    feed, broken = server.home / "feed", server.home / "broken"
    feed.mkdir()
    broken.touch()
    for number, line in enumerate(["fine", "poison"]):
        (feed / line).write_text(f"{line}\n")
        os.utime(feed / line, (1_700_000_000 + number,) * 2)
    config = {"ops": {"fed": {"config": {"full_refresh": ["steady", "arrivals"]}}}}
    parent = server.launch("fed_refresh", config)["run"]["runId"]
    status, done = server.wait(parent)
    assert status == "FAILURE"
    assert set(done) == {"steady"}

    broken.unlink()
    status, done = server.retry(parent, "FROM_FAILURE")
    assert status == "SUCCESS"
    assert set(done) == {"steady", "arrivals"}
    assert done["steady"]["delta_pipelines/refresh"] == "unchanged"
    assert parent in done["steady"]["delta_pipelines/reason"]
    assert done["arrivals"]["delta_pipelines/refresh"] == "refresh"
    # A second wipe would have read both files again.
    assert done["arrivals"]["delta_pipelines/batches"] == 1
    assert done["arrivals"]["delta_pipelines/rows_written"] == 1


def test_a_typo_is_refused_before_launch(server):
    config = {"ops": {"small": {"config": {"full_refresh": ["number"]}}}}
    answer = server.launch("small_refresh", config)
    assert answer["__typename"] == "RunConfigValidationInvalid"
    assert "number" in answer["errors"][0]["message"]


def test_a_run_terminated_in_the_ui_is_canceled_and_its_spark_job_stops(server):
    run_id = server.launch("slow_refresh")["run"]["runId"]
    active = server.home / "active"
    end = time.monotonic() + 300
    while not (active.exists() and active.read_text()):
        assert time.monotonic() < end, "the slow run started no Spark job"
        time.sleep(0.1)
    asked = time.time()
    assert server.ask(TERMINATE, run=run_id)["__typename"] == "TerminateRunSuccess"
    status, materialized = server.wait(run_id, seconds=60)
    assert status == "CANCELED"
    assert not materialized
    assert float(active.read_text().splitlines()[-1]) - asked < 5
