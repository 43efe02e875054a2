"""Backfills of partitioned assets in a real `dagster dev`, started as the UI starts them."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from delta_pipelines_tests.dagster.webserver import QUEUED, Webserver

pytestmark = [pytest.mark.dagster_dev, pytest.mark.timeout(1800)]
DAILY, PARITY, TOTAL = ["days", "daily"], ["days", "by_parity"], ["days", "total"]
ASSET_JOB = "__ASSET_JOB"


@pytest.fixture
def server(tmp_path):
    environment = {
        "TEST_WAREHOUSE": str(tmp_path / "warehouse"),
        "TEST_KILLED": str(tmp_path / "killed"),
    }
    location = "delta_pipelines_tests.dagster.divided_location"
    with Webserver(tmp_path, location=location, instance=QUEUED, **environment) as webserver:
        yield webserver


def refreshed(server):
    """The partitions of each commit on `days.daily`, in order, and the rows of its files."""
    (log,) = Path(server.home / "warehouse").rglob("daily/_delta_log")
    commits, files = [], {}
    for path in sorted(log.glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            if "commitInfo" in action:
                noted = json.loads(action["commitInfo"].get("userMetadata") or "{}")
                commits += noted.get("partitions", {}).get("refreshed", [])
            if "add" in action:
                files[action["add"]["path"]] = json.loads(action["add"]["stats"])["numRecords"]
            if "remove" in action:
                files.pop(action["remove"]["path"])
    return commits, sum(files.values())


def test_a_backfill_killed_half_way_is_completed_by_another(server):
    killed = server.home / "killed"
    killed.write_text("2015-02-15")
    status, runs, _ = server.backfill([DAILY])
    assert (status, runs) == ("COMPLETED_FAILED", ["FAILURE", "SUCCESS"])
    assert server.partitions(DAILY) == (30, 30, 60)
    assert refreshed(server) == (["2015-01-01..2015-01-30"], 30)

    killed.unlink()
    first = date(2015, 1, 31)
    missing = [str(first + timedelta(days=number)) for number in range(30)]
    status, runs, _ = server.backfill([DAILY], missing)
    assert (status, runs) == ("COMPLETED_SUCCESS", ["SUCCESS"])
    assert server.partitions(DAILY) == (60, 0, 60)
    assert refreshed(server) == (["2015-01-01..2015-01-30", "2015-01-31..2015-03-01"], 60)


def test_assets_are_launched_alone_and_together_with_a_partition(server):
    tags = {"dagster/partition": "2015-01-05"}
    run = server.launch(ASSET_JOB, assets=[DAILY], tags=tags)["run"]["runId"]
    assert server.wait(run)[0] == "SUCCESS"
    assert server.partitions(DAILY) == (1, 0, 60)

    run = server.launch(ASSET_JOB, assets=[DAILY, TOTAL], tags=tags)["run"]["runId"]
    status, shown = server.wait(run)
    assert (status, set(shown)) == ("SUCCESS", {"daily", "total"})
    assert shown["daily"]["delta_pipelines/refresh"] == "unchanged"


def test_assets_with_different_partitions_are_backfilled_together(server):
    # Dagster starts a run for each kind of partitions, in order.
    status, runs, ids = server.backfill([DAILY, PARITY, TOTAL])
    assert status == "COMPLETED_SUCCESS"
    assert set(runs) == {"SUCCESS"}
    assert server.partitions(DAILY) == (60, 0, 60)
    assert server.partitions(PARITY) == (2, 0, 2)
    assert {name for run in ids for name in server.wait(run)[1]} == {"daily", "by_parity", "total"}

    status, shown = server.run("days_refresh")
    assert status == "SUCCESS"
    assert {facts["delta_pipelines/refresh"] for facts in shown.values()} == {"unchanged"}
