"""Environment variables in `spark_config`; no JVM starts."""

import logging

import dagster as dg
import pytest

from delta_pipelines.dagster import DeltaPipelineResource
from delta_pipelines.dagster.resource import redacted_session
from delta_pipelines.dagster.resource.spark_config import flat_settings, with_named_variables
from delta_pipelines.errors import SessionError

SECRET = "kanari5e7-variable"
KEY = "spark.hadoop.fs.s3a.secret.key"


def test_settings_are_flattened_as_spark_writes_them():
    nested = {"spark": {"ui": {"enabled": False}, "sql.shuffle.partitions": 2}, "a.b": "c"}
    assert flat_settings(nested) == {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "a.b": "c",
    }


@pytest.mark.parametrize(
    "given",
    [
        {KEY: dg.EnvVar("S3A_OF_TEST")},
        {"spark": {"hadoop": {"fs.s3a": {"secret.key": dg.EnvVar("S3A_OF_TEST")}}}},
        {KEY: {"env": "S3A_OF_TEST"}},
        {"spark.hadoop": {"fs.s3a.secret.key": {"env": "S3A_OF_TEST"}}},
    ],
)
def test_a_variable_is_its_value_however_it_is_written(monkeypatch, given):
    monkeypatch.setenv("S3A_OF_TEST", SECRET)
    assert flat_settings(given) == {KEY: SECRET}
    with DeltaPipelineResource(
        warehouse="w", spark_config=given
    ).process_config_and_initialize_cm() as prepared:
        assert prepared.flat_config == {KEY: SECRET}
        assert SECRET not in str(prepared.spark_config), "its value is nowhere but in Spark"


def test_a_number_may_come_from_a_variable_too(monkeypatch):
    monkeypatch.setenv("PARTITIONS_OF_TEST", "7")
    given = {"spark.sql.shuffle.partitions": dg.EnvVar.int("PARTITIONS_OF_TEST")}
    assert flat_settings(given) == {"spark.sql.shuffle.partitions": "7"}


def test_a_setting_that_has_another_name_beside_env_is_nested_and_no_variable():
    assert flat_settings({"a": {"env": "x", "b": 1}, "env": "y"}) == {
        "a.env": "x",
        "a.b": "1",
        "env": "y",
    }


def test_configure_at_launch_shows_the_variable_and_not_its_name(monkeypatch):
    monkeypatch.setenv("S3A_OF_TEST", SECRET)
    settings = {"spark": {"hadoop.fs.s3a.secret.key": dg.EnvVar("S3A_OF_TEST"), "a": 1}}
    launch = DeltaPipelineResource.configure_at_launch(warehouse="w", spark_config=settings)
    seen = []

    @dg.op
    def look(delta: DeltaPipelineResource):
        seen.append(delta.flat_config)

    @dg.job(resource_defs={"delta": launch})
    def looking():
        look()

    assert looking.execute_in_process(instance=dg.DagsterInstance.ephemeral()).success
    assert seen == [{KEY: SECRET, "spark.a": "1"}]
    assert with_named_variables({"a": 1, "b": {"c": "d"}}) == {"a": 1, "b": {"c": "d"}}


def test_the_session_is_built_with_the_value(monkeypatch):
    def asked(warehouse, **options):
        raise SessionError(str(options["config"]))

    monkeypatch.setattr("delta_pipelines.dagster.resource.resource.get_session", asked)
    # Tests that ran before in this process may have left a session.
    monkeypatch.setattr("delta_pipelines.dagster.resource.resource.spark_is_active", lambda: False)
    resource = DeltaPipelineResource(
        warehouse="w", spark_config={"spark.a": dg.EnvVar("SPARK_A_OF_TEST")}
    )
    monkeypatch.setenv("SPARK_A_OF_TEST", "late")
    with pytest.raises(SessionError, match=r"^{'spark.a': 'late'}$"):
        _ = resource.spark_session


def failing(resource, body=lambda: None):
    """Run a job over a resource's session; its failure, and all that Dagster stored."""

    @dg.op
    def step(context):
        with redacted_session.guarded_session(resource, context.log):
            body()

    @dg.job
    def job():
        step()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        stored = [dg.serialize_value(record) for record in instance.all_logs(result.run_id)]
    (failed,) = result.get_step_failure_events()
    return failed.step_failure_data, stored


def test_a_variable_that_is_not_set_is_named_with_its_setting(monkeypatch):
    monkeypatch.delenv("S3A_OF_TEST", raising=False)
    resource = DeltaPipelineResource(warehouse="w", spark_config={KEY: dg.EnvVar("S3A_OF_TEST")})
    with pytest.raises(SessionError, match=rf"{KEY} .*variable S3A_OF_TEST.* not set: set it"):
        _ = resource.spark_session
    failed, _ = failing(resource)
    assert "S3A_OF_TEST" in failed.user_failure_data.description


class Fixed:
    """A session with settings that cannot be changed."""

    @property
    def conf(self):
        return self

    def isModifiable(self, key):  # noqa: N802 - Spark's name
        return False


def test_a_credential_of_a_variable_is_hidden_whatever_the_variable_is_called(monkeypatch):
    monkeypatch.setenv("X_OF_TEST", SECRET)
    monkeypatch.setattr(redacted_session, "settings_of", lambda spark: {})
    monkeypatch.setattr(
        "delta_pipelines.dagster.resource.resource.get_session", lambda *_, **__: Fixed()
    )
    monkeypatch.setattr("delta_pipelines.dagster.resource.resource.file_settings", lambda spark: {})
    resource = DeltaPipelineResource(warehouse="w", spark_config={KEY: {"env": "X_OF_TEST"}})

    def body():
        logging.getLogger("delta_pipelines").info("logging in with %s", SECRET)
        raise ValueError(f"cannot log in with {SECRET}")

    failed, stored = failing(resource, body)
    assert "cannot log in with ***" in failed.error.to_string()
    assert any("logging in with ***" in text for text in stored)
    assert not [text for text in stored if SECRET in text]
