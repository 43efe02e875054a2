"""The kill matrix on S3: runs that fail at any step, and processes that are killed there.

What must be true is the same as on a disk (`test_failure_steps.py`, `processes/`): the table is as
before or as after, and a rerun ends as a clean run.
"""

import signal
import time
from dataclasses import replace

import pytest

from delta_pipelines_tests.conftest import LISTING_TASKS
from delta_pipelines_tests.spark.s3.conftest import WAREHOUSE
from delta_pipelines_tests.support.killed_process import KILLED, PATIENCE

pytestmark = pytest.mark.timeout(3600)

TOOLS = """
from delta_pipelines_tests.support.engine_operations import OPERATIONS
from delta_pipelines_tests.support.failing_runs import Matrix
from delta_pipelines_tests.support.killed_process import Killing
from delta_pipelines_tests.support.left_behind import of_the_session
from delta_pipelines_tests.support.shares import Share
"""
FAILS = """
spark.conf.set({listing!r}, "2")
spark.sql("CREATE SCHEMA failing")
before = of_the_session(spark, "failing")
operations = [operation for operation in OPERATIONS if operation.name in {names!r}]
matrix = Matrix(spark, "failing", operations, {share!r})
matrix.begin()
matrix.every_round()
answer = matrix.report({place!r}, before)
"""
CORE = (
    "create_view",
    "create_stream",
    "alter_columns",
    "full_upsert",
    "full_stream",
    "partition_commits",
    "merge_deletes",
    "stream_append",
    "publish_view",
)
"""One operation for each way in which something is written."""
ONCE = [name for name in KILLED if not name[-1].isdigit()]
LEAST = 70
"""Cells of the core operations together."""


def test_a_process_killed_at_any_step_leaves_what_a_rerun_makes_whole(
    start, tmp_path, share, record_property
) -> None:
    names = list(share.of(ONCE))
    turns = 1 if share.parts > 1 else 2
    later = share.number // share.parts  # another turn when the names have been through once
    opened = f"{TOOLS}killing = Killing(spark, Path({str(tmp_path)!r}), {names!r})\n"
    began = time.monotonic()
    process = start("killed 0")
    assert process.answer() == "open"
    process.do(f"{opened}killing.begin()")
    cells: list[str] = []
    for number in range(1, turns + 1):
        process.start(f"{opened}killing.kill({number}, {number - 1 + later})")
        assert process.process.wait(timeout=PATIENCE) == -signal.SIGKILL, process.errors.read_text()
        process = start(f"killed {number}")
        assert process.answer() == "open"
        found = process.do(f"{opened}answer = killing.recover({number})")
        assert found["problems"] == [], "\n".join(found["problems"])
        cells += found["cells"]
    assert len(set(cells)) >= len(names)
    record_property(
        "proved",
        f"kill -9 on S3: {len(set(cells))} cells in {turns} killed processes, 0 differences, "
        f"{time.monotonic() - began:.0f} s",
    )


def test_a_failure_at_any_step_leaves_all_as_before_and_a_rerun_ends_as_a_clean_run(
    start, share, record_property
) -> None:
    process = start("failing")
    assert process.answer() == "open"
    began = time.monotonic()
    core = list(share.of(CORE))
    of_each = replace(share, number=share.number // share.parts)
    code = FAILS.format(listing=LISTING_TASKS, names=core, share=of_each, place=WAREHOUSE)
    found = process.do(TOOLS + code)
    assert found["problems"] == [], "\n".join(found["problems"])
    assert found["cells"] >= len(core)
    assert share.parts > 1 or found["of"] >= LEAST
    record_property(
        "proved",
        f"kill matrix on S3: {found['cells']} cells of {len(core)} operations, 0 differences, "
        f"{time.monotonic() - began:.0f} s",
    )
