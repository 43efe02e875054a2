"""Partitions of assets: the same keys and windows as the partitions of their datasets."""

import warnings
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from delta_pipelines.model.partitions import Partitions, StaticPartitions


def partitions_definition(by: Partitions) -> dg.PartitionsDefinition[str]:
    """Build the Dagster partitions with the same keys and windows.

    Args:
        by: How the dataset is divided.

    Example:
        >>> from delta_pipelines import DailyPartitions
        >>> str(partitions_definition(DailyPartitions("day", start="2024-01-01")))
        'Daily, starting 2024-01-01 UTC.'
    """
    if isinstance(by, StaticPartitions):
        return dg.StaticPartitionsDefinition(list(by.values))
    # As times: Dagster reads texts with `key_format` only, and `start` may be a day of hours.
    start = by.start_of(by.start)
    end = None if by.end is None else by.start_of(by.end)
    zone, offset = by.timezone, by.end_offset
    if by.kind == "hourly":
        return dg.HourlyPartitionsDefinition(
            start, end, minute_offset=start.minute, timezone=zone, end_offset=offset
        )
    if by.kind == "weekly":
        weekday = start.isoweekday() % 7  # Dagster's weeks have 0 for Sunday.
        return dg.WeeklyPartitionsDefinition(
            start, end_date=end, day_offset=weekday, timezone=zone, end_offset=offset
        )
    if by.kind == "monthly":
        return dg.MonthlyPartitionsDefinition(
            start, end_date=end, day_offset=start.day, timezone=zone, end_offset=offset
        )
    return dg.DailyPartitionsDefinition(start, end, timezone=zone, end_offset=offset)


def with_mappings(specs: Sequence[dg.AssetSpec]) -> tuple[dg.AssetSpec, ...]:
    """Say for each input with partitions which of them a partition of its reader reads.

    Dagster accepts only one explicit mapping for each input of a multi-asset. So where readers of
    one input need different mappings, windows of time keep Dagster's default mapping.

    Args:
        specs: The assets of one multi-asset; mappings of a translator stay.
    """
    divided = {s.key: s.partitions_def for s in specs if s.partitions_def is not None}
    given = {d.asset_key: d.partition_mapping for s in specs for d in s.deps if d.partition_mapping}
    needed = {
        (spec.key, dep.asset_key): _mapping(divided[dep.asset_key], divided[spec.key])
        for spec in specs
        for dep in spec.deps
        if spec.key in divided and dep.asset_key in divided
    }
    every = dg.AllPartitionMapping()
    read_whole = {upstream for (_, upstream), mapping in needed.items() if mapping == every}
    chosen = {
        (reader, upstream): mapping
        for (reader, upstream), mapping in needed.items()
        if upstream not in given
        if mapping is not None and (upstream not in read_whole or mapping == every)
    }
    return tuple(_mapped(spec, chosen) for spec in specs)


def without_partitions(spec: dg.AssetSpec) -> dg.AssetSpec:
    """The same asset, as a job sees it that runs all partitions at once."""
    deps = [dg.AssetDep(dep.asset_key) for dep in spec.deps]
    return spec.replace_attributes(partitions_def=None, deps=deps)


def have_partitions(specs: Iterable[dg.AssetSpec]) -> bool:
    """True if an asset has partitions."""
    return any(spec.partitions_def is not None for spec in specs)


def _mapping(
    upstream: dg.PartitionsDefinition[str], reader: dg.PartitionsDefinition[str]
) -> dg.PartitionMapping | None:
    """The mapping that a reader needs; None for Dagster's default."""
    if upstream == reader and isinstance(reader, dg.StaticPartitionsDefinition):
        return None
    if (
        isinstance(upstream, dg.TimeWindowPartitionsDefinition)
        and isinstance(reader, dg.TimeWindowPartitionsDefinition)
        and upstream.timezone == reader.timezone
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            # A reader may begin before its input: it has no rows there, which is not an error.
            return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
    return dg.AllPartitionMapping()


def _mapped(
    spec: dg.AssetSpec,
    chosen: Mapping[tuple[dg.AssetKey, dg.AssetKey], dg.PartitionMapping],
) -> dg.AssetSpec:
    deps = list(spec.deps)
    for number, dep in enumerate(deps):
        mapping = chosen.get((spec.key, dep.asset_key))
        if mapping is not None:
            deps[number] = dg.AssetDep(dep.asset_key, partition_mapping=mapping)
    return spec.replace_attributes(deps=deps) if deps != list(spec.deps) else spec
