"""The kill matrix: every operation fails once at every step, before and after it, and with a lost
answer of the commit. Before the commit nothing has changed; a rerun ends as a run that never
failed, and leaves nothing behind.
"""

import resource
import time

import pytest

from delta_pipelines_tests.support.engine_operations import OPERATIONS
from delta_pipelines_tests.support.failing_runs import Matrix
from delta_pipelines_tests.support.left_behind import of_the_session

pytestmark = pytest.mark.promise(8)

CELLS = {"views": 95, "upserts": 45, "streams": 120}
"""How many there are at least, of each group of operations."""
STEPS = {
    "create_view": "analyse begin define write commit register recache",
    "alter_columns": "analyse begin define write commit recache",
    "partition_rows": "begin analyse define analyse write commit recache",
    "merge_rows": "analyse begin merge write write commit recache",
    "publish_view": "publish",
    "stream_append": "begin analyse stream batch begin write commit recache",
    "full_stream": "begin define analyse stream batch write commit recache",
}
"""What some operations pass for sure, so that a list of no steps proves nothing by mistake."""
LONG = pytest.mark.timeout(3600)


@pytest.mark.usefixtures("quick_vacuum")
@pytest.mark.parametrize("group", ["views", "upserts", pytest.param("streams", marks=LONG)])
def test_a_failure_at_any_step_leaves_all_as_before_and_a_rerun_ends_as_a_clean_run(
    spark, schema, warehouse, group, share, record_property
):
    began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    operations = [op for op in OPERATIONS if op.group == group]
    # A step of a stream takes longest, and there are most of them.
    share = share.of_parts({"views": 2, "upserts": 1, "streams": 4}[group])
    matrix = Matrix(spark, schema, operations, share)
    before = of_the_session(spark, schema)
    matrix.begin()
    assert matrix.total >= CELLS[group]
    for name in matrix.steps.keys() & STEPS.keys():
        assert " ".join(step.value for step in matrix.steps[name]) == STEPS[name], name
    matrix.every_round()
    assert matrix.problems == [], "\n".join(matrix.problems)
    assert matrix.report(str(warehouse), before)["problems"] == []
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    record_property(
        "proved",
        f"kill matrix, {group}: {matrix.done} cells of {len(matrix.operations)} operations, "
        f"0 differences, {time.monotonic() - began:.0f} s ({spent:.0f} s of this process)",
    )
