"""Lost blocks: only a lost block of the merge's own source is a reason to run again."""

from types import SimpleNamespace

import pytest

from delta_pipelines.delta.merge.materialized_rows import FixedRows, RowsFailure, rows_failure

LOST = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block {} not found!"


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("rdd_1_0", RowsFailure.LOST_BLOCK),
        ("rdd_1_17", RowsFailure.LOST_BLOCK),
        ("rdd_12_0", RowsFailure.OTHER),
        ("rdd_21_1", RowsFailure.OTHER),
    ],
)
def test_a_checkpoint_with_the_same_prefix_in_its_number_is_another(block, kind):
    fixed = FixedRows(frame=None, rdd=SimpleNamespace(id=lambda: 1))
    assert rows_failure(RuntimeError(LOST.format(block)), fixed) is kind
    assert rows_failure(RuntimeError(LOST.format(block)), None) is RowsFailure.OTHER
    assert rows_failure(RuntimeError(f"block {block} is fine"), fixed) is RowsFailure.OTHER
