"""What a run's streams have done to a table adds up over its attempts."""

from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.update.stream_tally import BatchId, BatchResult, StreamTally

TABLE = Identifier(None, "s", "t")
FULL = DatasetPlan("t", TABLE, "streaming_table", "full_refresh", "asked for")
GOES_ON = DatasetPlan("t", TABLE, "streaming_table", "refresh", "new rows are appended")


def batch(number: int) -> BatchId:
    return BatchId("checkpoint", number)


def test_batches_of_all_attempts_add_up() -> None:
    tally = StreamTally()
    tally.committed(4, FULL)
    tally.add(batch(0), BatchResult(5, {"numOutputRows": 2, "numFiles": 1}))
    tally.add(batch(1), BatchResult(6, {"numOutputRows": 3}))
    assert tally.metrics == {"numOutputRows": 5, "numFiles": 1}
    assert (tally.version, tally.batches) == (6, 2)


def test_a_batch_that_the_table_has_already_counts_once() -> None:
    tally = StreamTally()
    tally.add(batch(0), BatchResult(5, {"numOutputRows": 2}))
    tally.add(batch(0), BatchResult(None, {}))
    tally.add(BatchId("another checkpoint", 0), BatchResult(6, {"numOutputRows": 1}))
    assert (tally.version, tally.batches, tally.metrics["numOutputRows"]) == (6, 2, 3)


def test_a_retry_keeps_the_plan_of_the_first_commit() -> None:
    tally = StreamTally()
    tally.committed(4, FULL)
    tally.committed(5, GOES_ON)
    assert (tally.planned, tally.version) == (FULL, 5)


def test_expectations_of_all_batches_add_up() -> None:
    tally = StreamTally()
    for number, broken in enumerate((1, 2)):
        result = ExpectationResult("has a code", "code IS NOT NULL", "drop", rows=4, broken=broken)
        tally.add(batch(number), BatchResult(number, {}, expectations=(result,)))
    [result] = tally.expectations
    assert (result.rows, result.broken) == (8, 3)


def test_a_restart_forgets_what_was_not_committed() -> None:
    tally = StreamTally()
    tally.add(BatchId("a", 0), BatchResult(None, {"numOutputRows": 2}))
    tally.add(BatchId("b", 3), BatchResult(None, {}))
    tally.add(BatchId("b", 4), BatchResult(None, {}))
    assert tally.last_batches == {"a": 0, "b": 4}
    tally.restart()
    assert tally == StreamTally()
