"""Ctrl-C ends a run of the `delta-pipelines` command at once and leaves the tables."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PIPELINE = """
import time
from pathlib import Path

import delta_pipelines as dp

pipeline = dp.Pipeline("interrupted", schema="s")


@pipeline.materialized_view
def t(spark):
    if not Path("slow").exists():
        return spark.sql("SELECT 1L AS id")
    with open("slow", "a") as marker:
        marker.write("analysed;")
    return spark.range(3600 * 10**11).selectExpr("max(sqrt(id) * sin(id)) AS id").selectExpr(
        "CAST(id AS BIGINT) AS id"
    )


@pipeline.materialized_view
def u(t):
    if not Path("slow").exists() and list(Path("warehouse").rglob("t/_delta_log/*.json")):
        print("IN THE RUN", flush=True)
        time.sleep(600)
    return t
"""

COMMAND = "from delta_pipelines.cli.commands import main; main()"


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", "both.py:pipeline", "--warehouse", "warehouse"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@dataclass
class Ended:
    """How a run ended after the last interrupt."""

    folder: Path
    code: int
    output: str
    seconds: float


def interrupted(run, folder) -> Ended:
    """Interrupt every process of the group, as a terminal does, and wait for the end."""
    os.killpg(run.pid, signal.SIGINT)
    started = time.monotonic()
    output, _ = run.communicate(timeout=60)
    return Ended(folder, run.returncode, output, time.monotonic() - started)


@pytest.fixture(scope="module")
def waiting_run(tmp_path_factory) -> Ended:
    """Create `t`, and interrupt the run twice while the function of `u` waits."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "both.py").write_text(PIPELINE)
    run = start(folder)
    try:
        assert run.stdout is not None
        read = []
        for expected in (
            "IN THE RUN",
            "Waiting up to 30 s for s.u to end. Interrupt again to stop",
        ):
            if read:
                os.killpg(run.pid, signal.SIGINT)
            for line in run.stdout:
                read.append(line)
                if expected in line:
                    break
            else:
                raise AssertionError("".join(read))
        return interrupted(run, folder)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)


def check(ended):
    assert ended.code == 130, ended.output
    assert ended.seconds < 10, ended.output
    assert "interrupted" in ended.output
    assert "Traceback" not in ended.output


def test_a_second_ctrl_c_ends_a_run_while_its_function_waits(waiting_run):
    check(waiting_run)


def test_ctrl_c_ends_a_run_within_ten_seconds_and_leaves_the_table(waiting_run):
    folder = waiting_run.folder
    log = next((folder / "warehouse").rglob("t/_delta_log"))
    commits = sorted(p.name for p in log.glob("*.json"))
    assert commits
    (folder / "slow").write_text("")
    run = start(folder)
    try:
        deadline = time.monotonic() + 120
        while (folder / "slow").read_text().count("analysed") < 2:
            assert time.monotonic() < deadline
            assert run.poll() is None, run.communicate()
            time.sleep(0.1)
        time.sleep(3)  # from the analysis in the run to the job
        ended = interrupted(run, folder)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
    check(ended)
    assert sorted(p.name for p in log.glob("*.json")) == commits
