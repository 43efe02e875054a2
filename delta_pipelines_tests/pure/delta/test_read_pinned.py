"""Why a pinned version cannot be read: only a missing version counts as replaced."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException, SparkRuntimeException
from pyspark.sql.types import StructType

from delta_pipelines.delta.log import loading
from delta_pipelines.delta.log.loading import read_pinned
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState

STATE = TableState(Identifier(None, "aviation", "airports"), "file:/x", "id", 3, StructType())


@pytest.fixture(autouse=True)
def without_jvm(monkeypatch):
    """The reader alone raises; nothing before it needs a JVM."""
    monkeypatch.setattr(loading, "active", nullcontext)
    monkeypatch.setattr(loading, "_few_files", lambda spark, state: None)


def session_with_failing_reader(failure):
    def load(_):
        raise failure

    reader = SimpleNamespace(load=load)
    reader.format = reader.option = lambda *_: reader
    return SimpleNamespace(read=reader)


@pytest.mark.parametrize(
    "failure",
    [
        AnalysisException("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 3."),
        AnalysisException("[DELTA_PATH_DOES_NOT_EXIST] file:/x doesn't exist."),
        AnalysisException("[DELTA_TABLE_NOT_FOUND] Delta table file:/x doesn't exist."),
        AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03"),
        PySparkException("[DELTA_TRUNCATED_TRANSACTION_LOG] file:/x/_delta_log: ..."),
        SparkRuntimeException("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error: file:/x"),
    ],
    ids=str,
)
def test_a_missing_version_was_replaced(failure):
    with pytest.raises(DatasetError, match="version 3 was replaced after planning") as caught:
        read_pinned(session_with_failing_reader(failure), STATE)
    assert caught.value.transient
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize(
    "failure",
    [
        PySparkException("java.nio.file.AccessDeniedException: file:/x/_delta_log"),
        AnalysisException("[DELTA_UNSUPPORTED_FEATURES_FOR_READ] Unsupported Delta read feature."),
        Py4JNetworkError("Error while sending or receiving"),
    ],
    ids=str,
)
def test_an_error_about_existing_files_is_reported_as_it_is(failure):
    with pytest.raises(DatasetError) as caught:
        read_pinned(session_with_failing_reader(failure), STATE)
    assert "replaced" not in str(caught.value)
    assert "aviation.airports" in str(caught.value)
    assert not caught.value.transient
    assert caught.value.__cause__ is failure


def test_an_error_of_this_package_is_not_reported_as_a_replaced_table():
    with pytest.raises(TypeError):
        read_pinned(session_with_failing_reader(TypeError("not callable")), STATE)
