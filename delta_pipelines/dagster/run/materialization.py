"""Report one successful dataset: its materialization, its partitions and its check results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import dagster as dg

from delta_pipelines.dagster.run.check_evaluations import (
    Evaluation,
    evaluations_metadata,
    evaluations_of,
)
from delta_pipelines.dagster.run.check_results import check_results, selected_checks
from delta_pipelines.dagster.run.metadata import (
    COLUMN_LINEAGE,
    MetadataEntry,
    data_version,
    materialization_metadata,
    table_lineage,
)
from delta_pipelines.dagster.run.partition_events import (
    TABLE_DATA_VERSION,
    PartitionReport,
    Shown,
    partition_metadata,
    partition_report,
    partition_states,
)
from delta_pipelines.dagster.run.previous_materialization import (
    ROW_COUNT,
    Newest,
    Standing,
    is_asked,
    look_up,
)
from delta_pipelines.dagster.specs.binding import PipelineBinding
from delta_pipelines.dagster.specs.check_specs import expectations_of
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.results import DatasetResult
from delta_pipelines.planning.plan import Plan

StepEvent: TypeAlias = "dg.MaterializeResult[None] | dg.AssetMaterialization | dg.AssetCheckResult"
"""An event that a step reports to Dagster."""


@dataclass(frozen=True)
class Reporter:
    """Reports the datasets of one step.

    Args:
        context: The context of the step.
        binding: The pipeline's datasets and their asset keys.
        plan: The plan of the step.
        names_partitions: True if the run or its config names partitions.
        newest: The newest materializations of unchanged datasets.
    """

    context: dg.AssetExecutionContext
    binding: PipelineBinding
    plan: Plan
    names_partitions: bool = False
    newest: Newest = field(default_factory=dict)

    def checks(self, result: DatasetResult) -> dict[str, dg.AssetCheckKey]:
        """The selected checks of a dataset, by the expectation's name."""
        selected = self.context.selected_asset_check_keys
        return selected_checks(self.binding, result.identifier, selected)

    def failed_events(self, result: DatasetResult) -> "Iterator[StepEvent]":
        """The events of a dataset that failed: partitions that were done before, and checks."""
        run_id = self.context.run.run_id
        key, shown = self.binding.key_of(result.identifier), Shown(result, {})
        for partition, state in partition_states(result, (), {}).items():
            yield shown.materialization(key, partition, state)
        yield from check_results(self.checks(result), evaluations_of(result, run_id), run_id)

    def events(self, result: DatasetResult) -> "Iterator[StepEvent]":
        """The events of a successful dataset.

        Yields:
            Partitions, the materialization of the asset's output with the check results, and the
            partitions of the output that have another data version.
        """
        context, run_id = self.context, self.context.run.run_id
        key = self.binding.key_of(result.identifier)
        checks = self.checks(result)
        metadata, found = self._metadata(result, checks)
        unknown = sorted(checks.keys() - found.keys())
        if unknown:
            context.log.info(
                f"{result.identifier}: its checks {', '.join(map(repr, unknown))} are not "
                "evaluated: this run wrote no rows, and the current rows were not evaluated before."
            )
        version = data_version(result)
        results = list(check_results(checks, found, run_id))
        report = partition_report(context, key, result, named=self.names_partitions)
        if report is None:
            yield dg.MaterializeResult(
                asset_key=key, metadata=metadata, data_version=version, check_results=results
            )
            return
        yield from divided_events(key, result, report, metadata)
        yield from results

    def _metadata(
        self, result: DatasetResult, checks: Mapping[str, dg.AssetCheckKey]
    ) -> tuple[dict[str, MetadataEntry], dict[str, Evaluation]]:
        """The metadata of a dataset, and the evaluations of its rows."""
        context, binding, plan = self.context, self.binding, self.plan
        key, run_id = binding.key_of(result.identifier), context.run.run_id
        dataset = binding.graph[result.identifier]
        upsert = dataset.declaration.upsert if isinstance(dataset, Table) else None
        planned = plan.datasets[result.identifier]
        lineage = planned.column_lineage if result.facts is not None else None
        found = evaluations_of(result, run_id)
        metadata: dict[str, MetadataEntry] = {}
        try:
            metadata |= materialization_metadata(result, upsert.keys if upsert else ())
            standing = Standing()
            are_missing = not checks.keys() <= found.keys()
            if is_asked(result, checks=are_missing, lineage=lineage is not None):
                declared = expectations_of(binding.graph, result.identifier)
                conditions = {e.name: plan.redaction.text(e.condition) for e in declared}
                standing = look_up(context.instance, key, result, conditions, self.newest)
            shown = standing.lineage if result.status == "unchanged" else None
            if lineage is not None and result.facts is not None:
                shown = table_lineage(lineage, result.facts.schema.names, binding.key_of)
            metadata |= {COLUMN_LINEAGE: shown} if shown is not None else {}
            if standing.row_count is not None:
                metadata.setdefault(ROW_COUNT, standing.row_count)
            found = {**standing.evaluations, **found}
            metadata |= evaluations_metadata(found.values())
        except Exception as error:  # noqa: BLE001 - metadata must not fail the dataset
            context.log.warning(f"{result.identifier}: its metadata is incomplete, because {error}")
        return metadata, found


def divided_events(
    key: dg.AssetKey,
    result: DatasetResult,
    report: PartitionReport,
    metadata: dict[str, MetadataEntry],
) -> "Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]":
    """The materializations of an asset with partitions. Pure.

    Args:
        key: The asset.
        result: What the run did.
        report: What to say about its partitions.
        metadata: Metadata of the whole table.
    """
    version, shared = data_version(result), report.shared
    if shared is not None:
        # Each materialization is of one partition, so its rows are not those of the table.
        metadata = {name: entry for name, entry in metadata.items() if name != ROW_COUNT}
        metadata |= {TABLE_DATA_VERSION: version.value} if version is not None else {}
    shown = Shown(result, metadata)
    yield from report.before(key, shown)
    if shared is not None:
        metadata = {**metadata, **partition_metadata(result, shared)}
        version = None if shared.data_version is None else dg.DataVersion(shared.data_version)
    yield dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=version)
    yield from report.after(key, shown)
