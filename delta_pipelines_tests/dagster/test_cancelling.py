import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE = 5.0
"""Seconds after a signal in which the Spark job must have ended."""


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(f"no {what} within {seconds} s")


def restore_signals():
    # A process started in the background of a non-interactive shell inherits SIGINT as ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_spark_job_within_seconds(tmp_path, signal_sent):
    active = tmp_path / "active"
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(tmp_path),
        "TEST_ACTIVE": str(active),
        "TEST_NUMBERS": str(tmp_path / "numbers"),
        "TEST_FEED": str(tmp_path / "feed"),
        "TEST_BROKEN": str(tmp_path / "broken"),
        "TEST_WAREHOUSE": str(tmp_path / "warehouse"),
    }
    command = ["job", "execute", "-m", "delta_pipelines_tests.dagster.location", "-j"]
    with (tmp_path / "log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "dagster", *command, "slow_refresh"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=restore_signals,
        )
        try:
            wait_for(
                lambda: (active.exists() and active.read_text()) or child.poll() is not None,
                240,
                "Spark job",
            )
            assert child.poll() is None, (tmp_path / "log").read_text()[-3000:]
            sent = time.time()
            child.send_signal(signal_sent)
            child.wait(90)
        finally:
            child.kill()
            child.wait()
    last_seen = float(active.read_text().splitlines()[-1])
    assert last_seen - sent < DEADLINE
    assert child.returncode != 0
    text = (tmp_path / "log").read_text()
    assert "slow.endless: create" not in text
    assert "RUN_SUCCESS" not in text
