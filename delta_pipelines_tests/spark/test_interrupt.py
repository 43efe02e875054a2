"""Ctrl-C ends a run of the `delta-pipelines` command at once and leaves the tables."""

import os
import signal
import subprocess
import sys
import time

SLOW = """
import delta_pipelines as dp

pipeline = dp.Pipeline("slow", schema="s")


@pipeline.materialized_view
def t(spark):
    with open("marker", "a") as marker:
        marker.write("analysed;")
    try:
        seconds = int(open("seconds").read())
    except FileNotFoundError:
        seconds = 0
    if not seconds:
        return spark.sql("SELECT 1L AS id")
    return spark.range(seconds * 10**11).selectExpr("max(sqrt(id) * sin(id)) AS id").selectExpr(
        "CAST(id AS BIGINT) AS id"
    )
"""

COMMAND = "from delta_pipelines.cli.commands import main; main()"


def command(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_ctrl_c_ends_a_run_within_ten_seconds_and_leaves_the_table(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    arguments = ("run", "slow.py:pipeline", "--warehouse", "warehouse")
    first = command(tmp_path, *arguments)
    output, _ = first.communicate(timeout=180)
    assert first.returncode == 0, output
    log = next((tmp_path / "warehouse").rglob("t/_delta_log"))
    commits = sorted(p.name for p in log.glob("*.json"))

    (tmp_path / "seconds").write_text("3600")
    (tmp_path / "marker").write_text("")
    slow = command(tmp_path, *arguments)
    try:
        deadline = time.monotonic() + 120
        while (tmp_path / "marker").read_text().count("analysed") < 2:
            assert time.monotonic() < deadline
            assert slow.poll() is None, slow.communicate()
            time.sleep(0.1)
        time.sleep(3)  # from the analysis in the run to the job
        os.killpg(slow.pid, signal.SIGINT)  # as a terminal does it: every process of the group
        started = time.monotonic()
        output, _ = slow.communicate(timeout=60)
        took = time.monotonic() - started
    finally:
        if slow.poll() is None:
            os.killpg(slow.pid, signal.SIGKILL)
    assert slow.returncode == 130, output
    assert took < 10, output
    assert "interrupted" in output
    assert "Traceback" not in output
    assert sorted(p.name for p in log.glob("*.json")) == commits


DEAF = """
import time
import delta_pipelines as dp

pipeline = dp.Pipeline("deaf", schema="s")
asked = []


@pipeline.materialized_view
def t(spark):
    asked.append(t)
    if len(asked) > 1:
        print("IN THE RUN", flush=True)
        time.sleep(600)
    return spark.range(1)
"""


def test_a_second_ctrl_c_ends_a_run_whose_function_waits_for_something_else(tmp_path):
    (tmp_path / "deaf.py").write_text(DEAF)
    deaf = command(tmp_path, "run", "deaf.py:pipeline", "--warehouse", "warehouse")
    try:
        assert deaf.stdout is not None
        read = []
        for expected in (
            "IN THE RUN",
            "Waiting up to 30 s for s.t to end. Interrupt again to stop",
        ):
            for line in deaf.stdout:
                read.append(line)
                if expected in line:
                    break
            else:
                raise AssertionError("".join(read))
            os.killpg(deaf.pid, signal.SIGINT)
        started = time.monotonic()
        output, _ = deaf.communicate(timeout=60)
        assert time.monotonic() - started < 10, output
    finally:
        if deaf.poll() is None:
            os.killpg(deaf.pid, signal.SIGKILL)
    assert deaf.returncode == 130, output
    assert "interrupted" in output
    assert "Traceback" not in output
