"""Real `kill -9` of a process while every dataset of its run stands at another step.

A killed process leaves its JVM no time either. The next process runs the same again, and everything
must be as in a schema without a kill.
"""

import signal
import time
from pathlib import Path

import pytest

from delta_pipelines_tests.support.killed_process import KILLED, PATIENCE
from delta_pipelines_tests.support.spark_workers import Worker

pytestmark = pytest.mark.promise(8)

PREAMBLE = """
from pathlib import Path
import delta_pipelines as dp
from delta_pipelines_tests.support.killed_process import Killing
"""


@pytest.mark.parametrize(
    "turns", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_a_process_killed_at_any_step_leaves_what_a_rerun_makes_whole(
    tmp_path, process_settings, turns, share, record_property
):
    names = share.of(KILLED)
    began = time.monotonic()
    opened = (
        f"spark = dp.get_session({str(tmp_path / 'warehouse')!r}, config={process_settings!r})\n"
        f"killing = Killing(spark, Path({str(tmp_path)!r}), {names!r})"
    )
    worker = started(tmp_path / "0", opened)
    worker.do("killing.begin()")
    cells = []
    for number in range(1, turns + 1):
        # Another cell for each commit of the repository.
        turn = number - 1 + share.number // share.parts
        worker.start(f"killing.kill({number}, {turn})")
        assert worker.process.wait(timeout=PATIENCE) == -signal.SIGKILL, worker.errors.read_text()
        worker.end()
        worker = started(tmp_path / str(number), opened)
        found = worker.do(f"answer = killing.recover({number})")
        assert found["problems"] == [], "\n".join(found["problems"])
        cells += found["cells"]
    worker.end()
    assert len(set(cells)) >= len(names)
    record_property(
        "proved",
        f"kill -9: {len(set(cells))} cells in {turns} killed processes, 0 differences, "
        f"{time.monotonic() - began:.0f} s",
    )


def started(folder: Path, code: str) -> Worker:
    worker = Worker(folder, PREAMBLE, {})
    worker.do(code)
    return worker
