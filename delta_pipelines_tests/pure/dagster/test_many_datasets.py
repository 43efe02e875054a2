"""Dagster's reports about a thousand datasets are short, and the launchpad stays small."""

import dagster as dg
import pytest

import delta_pipelines as dp
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.dagster.run.report import failure, results_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult

SIZE = 1_000


def ended(number: int, status: str, **more: object) -> DatasetResult:
    identifier = Identifier(None, "s", f"t{number}")
    return DatasetResult(f"t{number}", status, "none", "why", identifier, "upsert", **more)


def test_unchanged_datasets_are_counted_in_the_table_of_results() -> None:
    results = [ended(n, "unchanged") for n in range(SIZE)]
    assert results_table(results) == "1,000 unchanged or skipped datasets are not listed."
    results[7] = ended(7, "completed")
    lines = results_table(results).splitlines()
    assert len(lines) == 5
    assert "`t7`" in lines[2]


def test_the_failure_starts_with_what_failed() -> None:
    error = DatasetError("no such column.", dataset="t5")
    results = [ended(n, "skipped") for n in range(SIZE)]
    results[5] = ended(5, "failed", error=error)
    failed = failure("p", results)
    assert failed is not None
    assert failed.description is not None
    lines = failed.description.splitlines()
    assert lines[:2] == [
        "1,000 datasets of pipeline p: 999 skipped, 1 failed.",
        "- t5 failed: no such column.",
    ]
    assert lines[-1] == "... and 969 more."
    assert failed.metadata["skipped"].value == SIZE - 1


@pytest.mark.parametrize("size", [10, SIZE])
def test_the_config_has_the_same_fields_for_any_number_of_datasets(size: int) -> None:
    made = dp.Pipeline("p", schema="s")
    for number in range(size):
        made.materialized_view(f"t{number}", "SELECT 1 AS n")
    spark = DeltaPipelineResource(warehouse="unused")
    defs = build_pipeline_definitions(made, spark=spark)
    job = defs.resolve_job_def("p_refresh")
    assert dg.validate_run_config(job)["ops"]["p"]["config"] == {
        "force": False,
        "full_refresh": [],
        "full_refresh_all": False,
        "strict": False,
    }
    assert len(job.get_config_schema_snapshot().all_config_snaps_by_key) < 50
