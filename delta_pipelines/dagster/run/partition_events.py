"""Report which partitions of an asset a run refreshed, each with its own data version.

If a run has a partition key or a range of keys, Dagster itself records a materialization of each of
these partitions for the asset's output, all with the same data version. Otherwise it records one
materialization of the whole asset, which marks no partition. So the step reports the rest itself.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from delta_pipelines.dagster.run.metadata import MetadataEntry
from delta_pipelines.model.partition_range import range_text
from delta_pipelines.model.results import DatasetResult, PartitionCommit

DATA_VERSION_TAG = "dagster/data_version"
TABLE_DATA_VERSION = "delta_pipelines/data_version"
"""Metadata key of the table's data version, where the tag has that of a partition."""


@dataclass(frozen=True)
class PartitionState:
    """What a run says about a partition.

    Args:
        data_version: Its data version; None if it is not known.
        commit: The commit of this run that computed it; None if it has not changed.
    """

    data_version: str | None
    commit: PartitionCommit | None = None


@dataclass(frozen=True)
class PartitionReport:
    """The materializations of one asset with partitions.

    Args:
        states: Key -> what is reported, in order.
        of_output: The keys that Dagster records for the asset's output.
    """

    states: Mapping[str, PartitionState]
    of_output: Collection[str] = frozenset()

    @property
    def shared(self) -> PartitionState | None:
        """What most partitions of the output have; None if the output is the whole asset."""
        counts = Counter(s for key, s in self.states.items() if key in self.of_output)
        return counts.most_common(1)[0][0] if counts else None

    def before(self, key: dg.AssetKey, shown: "Shown") -> Iterator[dg.AssetMaterialization]:
        """The partitions that the output does not have.

        They come before it, because Dagster takes a later materialization of an input for a change
        that its readers have not seen.
        """
        return (
            shown.materialization(key, partition, state)
            for partition, state in self.states.items()
            if partition not in self.of_output
        )

    def after(self, key: dg.AssetKey, shown: "Shown") -> Iterator[dg.AssetMaterialization]:
        """The partitions of the output that differ from most of its partitions."""
        shared = self.shared
        return (
            shown.materialization(key, partition, state, shown.table)
            for partition, state in self.states.items()
            if partition in self.of_output and state != shared
        )


@dataclass(frozen=True)
class Shown:
    """The metadata of an asset's materializations.

    Args:
        result: What the run did.
        table: Metadata of the whole table.
    """

    result: DatasetResult
    table: Mapping[str, MetadataEntry]

    def materialization(
        self,
        key: dg.AssetKey,
        partition: str,
        state: PartitionState,
        more: Mapping[str, MetadataEntry] | None = None,
    ) -> dg.AssetMaterialization:
        """One partition's materialization."""
        tags = {} if state.data_version is None else {DATA_VERSION_TAG: state.data_version}
        metadata = {**(more or {}), **partition_metadata(self.result, state)}
        return dg.AssetMaterialization(key, partition=partition, metadata=metadata, tags=tags)


def partition_metadata(result: DatasetResult, state: PartitionState) -> dict[str, MetadataEntry]:
    """What a run did with one partition."""
    commit = state.commit
    if commit is None:
        reason = result.reason if result.status == "unchanged" else "nothing changed in it"
        return {"delta_pipelines/refresh": "unchanged", "delta_pipelines/reason": reason}
    metadata: dict[str, MetadataEntry] = {
        "delta_pipelines/refresh": "refresh" if result.error else result.action.replace("_", " "),
        "delta_pipelines/reason": result.reason,
        "delta_pipelines/version": commit.version,
        "delta_pipelines/partitions": range_text(commit.keys),
    }
    if commit.rows is not None:
        alone = len(commit.keys) == 1
        metadata["dagster/row_count" if alone else "delta_pipelines/partitions_rows"] = commit.rows
    return metadata


def partition_report(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    result: DatasetResult,
    *,
    named: bool,
) -> PartitionReport | None:
    """Find what to report about the partitions of an asset; None if it has none.

    Unchanged partitions are reported if the run names partitions, so that a backfill sees that they
    are done. In another run they are reported only if Dagster does not know them yet: an asset may
    have thousands of them.

    Args:
        named: True if the run or its config names partitions.
    """
    done = result.partitions
    if done is None:
        return None
    of_output = output_partitions(context, key)
    unchanged: Sequence[str] = done.unchanged
    if not named and unchanged:
        known = context.instance.get_materialized_partitions(key)
        unchanged = [partition for partition in unchanged if partition not in known]
    recorded = recorded_versions(context.instance, key, unchanged)
    return PartitionReport(partition_states(result, unchanged, recorded), frozenset(of_output))


def partition_states(
    result: DatasetResult, unchanged: Sequence[str], recorded: Mapping[str, str]
) -> dict[str, PartitionState]:
    """What a run says about each partition. Pure.

    Args:
        unchanged: The unchanged partitions to report.
        recorded: The data versions that partitions had before.
    """
    done, facts = result.partitions, result.facts
    states: dict[str, PartitionState] = {}
    if done is None:
        return states
    table = facts.rows_of.text if facts is not None and facts.rows_of is not None else None
    for partition in unchanged:
        states[partition] = PartitionState(recorded.get(partition, table))
    for commit in done.commits:
        version = table if commit.rows_of is None else commit.rows_of.text
        states |= dict.fromkeys(commit.keys, PartitionState(version, commit))
    return states


def output_partitions(context: dg.AssetExecutionContext, key: dg.AssetKey) -> tuple[str, ...]:
    """The partitions that Dagster records as materialized for the output of an asset.

    Args:
        key: A selected asset.
    """
    divided = context.assets_def.get_asset_spec(key).partitions_def
    if divided is None or not (context.has_partition_key or context.has_partition_key_range):
        return ()
    return tuple(divided.get_partition_keys_in_range(context.partition_key_range))


def recorded_versions(
    instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Sequence[str]
) -> dict[str, str]:
    """The newest data version of each partition; without those that were never materialized."""
    if not partitions:
        return {}
    # One query; a list of names in it would be too long for a database.
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    return {
        partition: tags[partition][DATA_VERSION_TAG]
        for partition in partitions
        if DATA_VERSION_TAG in tags.get(partition, {})
    }
