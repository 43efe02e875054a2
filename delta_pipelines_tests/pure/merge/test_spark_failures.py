"""What a merge does for convenience must not fail it, however PySpark names the JVM's exception."""

import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark import errors

from delta_pipelines.delta.merge.materialized_rows import FixedRows
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.delta.merge.transaction import MergeTransaction
from delta_pipelines.merge import source
from delta_pipelines.merge.source import MergeSource
from delta_pipelines.model.merge_result import MaterializeSourceReason

FAILURES = [
    Py4JError("the JVM is gone"),
    errors.AnalysisException("a column is gone"),
    errors.IllegalArgumentException("requirement failed"),
    errors.UnsupportedOperationException("no statistics"),
]
every_failure = pytest.mark.parametrize("failure", FAILURES, ids=lambda exc: type(exc).__name__)


def failing(failure):
    def fail(*_):
        raise failure

    return fail


@every_failure
def test_a_checkpoint_that_cannot_be_freed_fails_no_merge(failure):
    source = MergeSource(spark=None)
    source._checkpoint = FixedRows(frame=None, rdd=SimpleNamespace(unpersist=failing(failure)))
    source.release()
    assert source._checkpoint is None


@every_failure
def test_nothing_is_known_of_a_source_if_its_plan_cannot_be_examined(failure, monkeypatch):
    monkeypatch.setattr(source, "gather_source_facts", failing(failure))
    decision = MergeSource(spark=None)._decide(None, insert_only=False)
    assert decision == (True, MaterializeSourceReason.UNKNOWN, False)


@every_failure
def test_a_source_of_unknown_size_is_very_large(failure):
    command = SimpleNamespace(source=lambda: SimpleNamespace(stats=failing(failure)))
    assert MergePlan(None, command, target=object()).source_bytes == sys.maxsize


@every_failure
def test_a_commit_succeeds_if_its_table_cannot_be_cached_again(failure):
    manager = SimpleNamespace(recacheByPlan=failing(failure))
    shared = SimpleNamespace(cacheManager=lambda: manager)
    session = SimpleNamespace(sharedState=lambda: shared)  # has no catalog: no cache is cleared
    command = SimpleNamespace(target=lambda: None)
    transaction = SimpleNamespace(_jvm=SimpleNamespace(session=session), _command=command)
    MergeTransaction._recache(transaction)
