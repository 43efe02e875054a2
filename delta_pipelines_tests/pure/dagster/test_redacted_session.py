"""Whatever is raised or logged in a step's session reaches Dagster without credentials."""

import logging

import dagster as dg
import pytest

from delta_pipelines.dagster.resource import redacted_session
from delta_pipelines.delta.jvm import sessions
from delta_pipelines.errors import PipelineError
from delta_pipelines.planning.query import column_lineage
from delta_pipelines.planning.skipping import dependency_trace

SECRET = "kanari5e7-guarded"


class Session:
    """An object that is only stored."""


class Resource:
    def __init__(self):
        self.flat_config = {"spark.acme.password": SECRET}

    def session_for_run(self):
        return Session()


@pytest.fixture
def no_settings(monkeypatch):
    for module in (redacted_session, sessions):
        monkeypatch.setattr(module, "settings_of", lambda spark: {"a.token": SECRET})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(f"cannot log in with {SECRET}"), "ValueError"),
        (PipelineError(f"cannot log in with {SECRET}"), "Failure"),
    ],
)
def test_no_event_of_a_run_holds_a_credential_of_what_was_raised(no_settings, error, kind):
    @dg.op
    def raising(context):
        with redacted_session.guarded_session(Resource(), context.log):
            raise error from RuntimeError(f"because of {SECRET}")

    @dg.job
    def job():
        raising()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        stored = [dg.serialize_value(record) for record in instance.all_logs(result.run_id)]
    (failed,) = result.get_step_failure_events()
    assert failed.step_failure_data.error_source
    error_info = failed.step_failure_data.error
    shown = error_info.to_string()
    assert kind in shown
    assert "cannot log in with ***" in shown
    assert "because of ***" in shown
    assert not [text for text in stored if SECRET in text]


def test_an_error_without_a_credential_is_raised_unchanged(no_settings):
    with (
        pytest.raises(KeyError) as info,
        redacted_session.guarded_session(Resource(), logging.getLogger()),
    ):
        raise KeyError("a plain reason") from RuntimeError("why")
    assert [entry.name for entry in info.traceback][-1].startswith("test_an_error")
    assert str(info.value.__cause__) == "why"


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_the_trace_of_unknown_dependencies_is_logged_without_credentials(
    no_settings, monkeypatch, caplog, level
):
    def broken(*_, **__):
        raise ValueError(f"cannot read jdbc with {SECRET}")

    class Frame:
        sparkSession = None  # noqa: N815 - PySpark's name

    class Flow:
        target = "s.t"

    monkeypatch.setattr(dependency_trace, "unavailable", lambda *_: False)
    monkeypatch.setattr(dependency_trace, "_traced", broken)
    monkeypatch.setattr(column_lineage, "column_origins", broken)
    with caplog.at_level(level, "delta_pipelines"):
        assert dependency_trace.trace(None, None, Flow(), None, markers={}, known=str) is None
        assert column_lineage.column_lineage({}, [(Frame(), {})]) is None
    assert "s.t: its dependencies cannot be traced" in caplog.text
    assert "column lineage of a query cannot be computed" in caplog.text
    assert caplog.text.count("cannot read jdbc with ***") == (2 if level == "DEBUG" else 0)
    assert SECRET not in caplog.text
