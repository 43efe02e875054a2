"""Repeat the materializations of an earlier run in a run that resumes from its failure.

Dagster only considers the outputs of the run itself. If a step does not yield an output, Dagster
skips everything behind it, and the run still succeeds. The output of an asset is a materialization,
so the assets that the earlier run finished are materialized again, unchanged.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import EVALUATIONS
from delta_pipelines.dagster.run.earlier_attempts import Attempt
from delta_pipelines.dagster.run.metadata import COLUMN_LINEAGE
from delta_pipelines.dagster.run.partition_events import (
    TABLE_DATA_VERSION,
    output_partitions,
    recorded_versions,
)
from delta_pipelines.dagster.run.previous_materialization import ROW_COUNT
from delta_pipelines.dagster.specs.binding import PipelineBinding
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier

STANDING = (
    *("dagster/column_schema", COLUMN_LINEAGE, "dagster/uri", "dagster/row_count"),
    TABLE_DATA_VERSION,
    *("delta_pipelines/version", "delta_pipelines/files", "delta_pipelines/bytes", EVALUATIONS),
)
"""Metadata that describes the dataset; the rest describes the earlier run and is not repeated."""

_DATA_VERSION = "dagster/data_version"
_OF_THE_USER = "dagster/data_version_is_user_provided"


def unfinished(
    graph: Graph, selected: Sequence[Identifier], finished: Collection[Identifier]
) -> tuple[Identifier, ...]:
    """The datasets that must still run, including finished datasets with unfinished inputs.

    The latter exist only if the code changed between two runs and gave a dataset another input.

    Args:
        selected: Datasets, each one after its inputs.
        finished: The datasets that earlier attempts finished.
    """
    left: set[Identifier] = set()
    for identifier in selected:
        if identifier not in finished or graph.inputs_among(identifier, left):
            left.add(identifier)
    return tuple(identifier for identifier in selected if identifier in left)


def finishing_run(
    key: dg.AssetKey, attempts: Sequence[Attempt], current: dg.DagsterRun
) -> str | None:
    """Id of the earlier run that finished an asset; None if this run has its output.

    Args:
        key: The asset's key.
        attempts: The attempts that this step continues, the latest first.
    """
    runs = [attempt.run_id for attempt in attempts if key in attempt.finished]
    return None if current.run_id in runs else next(reversed(runs), None)


def carried_over(
    context: dg.AssetExecutionContext, binding: PipelineBinding, identifier: Identifier, run_id: str
) -> "Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]":
    """Repeat an asset's newest materialization, with the same data version and inputs.

    In a run with a partition key or a range of keys, each partition keeps its own data version.

    Its tags are copied. Without them Dagster would record the current versions of the inputs, and
    show an outdated dataset as fresh.

    Args:
        binding: The pipeline's datasets and their asset keys.
        identifier: A dataset that an earlier run finished.
    """
    key = binding.key_of(identifier)
    metadata: dict[str, dg.MetadataValue[Any]] = {
        "delta_pipelines/refresh": dg.MetadataValue.text("unchanged"),
        "delta_pipelines/reason": dg.MetadataValue.text(
            f"finished by run {run_id}, which this run resumes after its failure"
        ),
        "delta_pipelines/finished_by": dg.MetadataValue.dagster_run(run_id),
    }
    # If a run between the two has refreshed it, this is the newer materialization.
    latest = context.instance.get_latest_materialization_event(key)
    materialization = latest.asset_materialization if latest is not None else None
    if latest is None or materialization is None:  # its history was wiped
        yield dg.MaterializeResult(asset_key=key, metadata=metadata)
        return
    partitions = output_partitions(context, key)
    recorded = recorded_versions(context.instance, key, partitions)
    tags = materialization.tags or {}
    version = tags.get(_DATA_VERSION) if tags.get(_OF_THE_USER) == "true" else None
    standing = {name: entry for name, entry in materialization.metadata.items() if name in STANDING}
    if materialization.partition is not None:
        standing.pop(ROW_COUNT, None)  # of one partition
    yield dg.MaterializeResult(
        asset_key=key,
        metadata=metadata | standing,
        data_version=dg.DataVersion(version) if version is not None else None,
        tags=tags,
        check_results=_check_results(context, key, latest.run_id),
    )
    for partition, own in recorded.items():
        if own != tags.get(_DATA_VERSION):
            yield dg.AssetMaterialization(
                key, partition=partition, metadata=metadata, tags={_DATA_VERSION: own}
            )


def _check_results(
    context: dg.AssetExecutionContext, key: dg.AssetKey, run_id: str
) -> list[dg.AssetCheckResult]:
    """Repeat the check results of a run; a selected check without result would show as skipped."""
    records = context.instance.get_records_for_run(
        run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ).records
    events = [record.event_log_entry.dagster_event for record in records]
    found = [event.asset_check_evaluation_data for event in events if event is not None]
    newest = {evaluation.asset_check_key: evaluation for evaluation in found}
    return [
        dg.AssetCheckResult(
            asset_key=key,
            check_name=check.name,
            passed=evaluation.passed,
            severity=evaluation.severity,
            description=evaluation.description,
            metadata=evaluation.metadata,
        )
        for check, evaluation in newest.items()
        if check.asset_key == key and check in context.selected_asset_check_keys
    ]
