"""Credentials, in whatever position they were given, are in nothing that leaves the engine."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from dagster import serialize_value
from dagster._core.remote_representation.external_data import RepositorySnap

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.model.results import PipelineRunError
from delta_pipelines_tests.dagster.leaky import FAILED, SETTINGS, WELL, leaky_pipeline, settings
from delta_pipelines_tests.dagster.running import materialize

MARKER = "kanari5e7"


def leaks(*texts):
    """Positions with a credential in the texts, and the text around it."""
    return sorted({m[0] for t in texts for m in re.finditer(rf".{{0,60}}{MARKER}-\w+", t)})


def files_with_credentials(folder):
    return [
        f"{path}: {leaks(path.read_bytes().decode('latin-1'))}"
        for path in Path(folder).rglob("*")
        if path.is_file() and MARKER.encode() in path.read_bytes()
    ]


@pytest.fixture
def secretive(spark, monkeypatch):
    """The suite's session with credentials among its settings and in the environment."""
    monkeypatch.setenv("LEAKY_PASSWORD", f"{MARKER}-environment")
    with ExitStack() as after:
        for key, value in settings(MARKER).items():
            spark.conf.set(key, value)
            after.callback(spark.conf.unset, key)
        yield spark


def test_nothing_that_dagster_stores_of_a_run_holds_a_credential(
    secretive, schema, lake, instance, warehouse, record_property, capfd
):
    pipeline = leaky_pipeline(MARKER, schema)
    outcome = materialize(pipeline, lake, instance)
    assert sorted(outcome.names) == sorted(WELL)
    records = instance.all_logs(outcome.result.run_id)
    stored = [serialize_value(record) for record in records]
    assert leaks(*stored) == []
    description = outcome.failure.description
    for name in FAILED:
        assert f"{name} failed" in description
    assert "jdbc:postgresql://***@db:5432/x?password=***&ssl=true" in description
    assert "the upload failed" in description
    output = capfd.readouterr()
    assert leaks(output.out, output.err) == []
    assert files_with_credentials(Path(warehouse) / f"{schema}.db") == []
    histories = [
        secretive.sql(f"DESCRIBE HISTORY {schema}.{n}").toJSON().collect() for n in WELL[:3]
    ]
    views = [str(row) for row in secretive.sql(f"DESCRIBE EXTENDED {schema}.seen").collect()]
    assert leaks(*(line for history in histories for line in history), *views) == []
    record_property("proved", f"secrets in Dagster: {len(stored)} events, 0 leaks")


def test_nothing_that_dagster_stores_of_a_plan_holds_a_credential(
    secretive, schema, lake, instance
):
    definitions = build_pipeline_definitions(leaky_pipeline(MARKER, schema), spark=lake)
    job = definitions.resolve_job_def("leaky_plan")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    stored = [serialize_value(record) for record in instance.all_logs(result.run_id)]
    (failed,) = result.get_step_failure_events()
    assert "raises_setting" in failed.step_failure_data.user_failure_data.description
    assert leaks(*stored) == []


def test_plans_results_and_errors_hold_no_credential(secretive, schema):
    pipeline = leaky_pipeline(MARKER, schema)
    plan = pipeline.plan(secretive)
    texts = [str(plan), json.dumps(plan.to_dict()), repr(plan.errors), repr(plan)]
    with pytest.raises(PipelineRunError) as failed:
        pipeline.run(secretive)
    texts += [str(failed.value), repr(failed.value)]
    for result in failed.value.results.values():
        texts += [repr(result), *_chain(result.error)]
    assert leaks(*texts) == []
    assert {n for n, r in failed.value.results.items() if r.status == "failed"} == set(FAILED)


def _chain(error):
    import traceback

    return traceback.format_exception(error) if error is not None else []


def test_a_code_location_shows_no_credential(monkeypatch):
    monkeypatch.setenv("LEAKY_PASSWORD", f"{MARKER}-environment")
    pipeline = leaky_pipeline(MARKER)
    pipeline.materialized_view(
        "literal", f"SELECT * FROM jdbc(url => 'x', password => '{MARKER}-literal')"
    )
    resource = DeltaPipelineResource(warehouse="w", spark_config=settings(MARKER))
    definitions = build_pipeline_definitions(pipeline, spark=resource)
    repository = definitions.get_repository_def()
    shown = serialize_value(RepositorySnap.from_def(repository, defer_snapshots=False))
    assert "SELECT id FROM merged" in shown
    assert leaks(shown) == []


def test_the_command_line_prints_no_credential_not_even_the_jvms_log(tmp_path, record_property):
    script = Path(__file__).with_name("leaky.py")
    warehouse = tmp_path / "warehouse"
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "delta_pipelines_tests.dagster.leaky",
            "-v",
            "run",
            f"{script}:leaky",
            "--warehouse",
            str(warehouse),
        ],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1, ended.stderr
    for name in FAILED:
        assert f"{name} failed" in ended.stdout
    for name in WELL:
        assert re.search(rf"completed\s+leaky\.{name}", ended.stdout)
    assert "Lost task" in ended.stderr, "the JVM's log of a failed task is looked at too"
    assert leaks(ended.stdout, ended.stderr) == []
    assert files_with_credentials(warehouse) == []
    files = sum(1 for path in warehouse.rglob("*") if path.is_file())
    positions = len(SETTINGS) + 8
    record_property(
        "proved", f"secrets: {positions} positions, {files} files, logs and output, 0 leaks"
    )


def _environment():
    import os

    return {**os.environ, "LEAKY_MARKER": MARKER, "LEAKY_PASSWORD": f"{MARKER}-environment"}
