"""The run config of a pipeline's op: tables to refresh fully, partitions, streams to read again."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from delta_pipelines.dagster.specs.asset_keys import config_names, reset_names
from delta_pipelines.graph.graph import Graph, Table, View
from delta_pipelines.model.partition_range import range_text
from delta_pipelines.planning.refresh_request import RefreshRequest


def op_config_schema(op_name: str, graph: Graph) -> dict[str, dg.Field]:
    """Build the config schema of a pipeline's op; every field has a default.

    Table names are an enum, so that a misspelt name fails before the run is launched.

    Args:
        op_name: The op's name; part of the enum's name.

    Example:
        >>> from delta_pipelines.pipeline import Pipeline
        >>> sales = Pipeline("sales", schema="sales")
        >>> sales.materialized_view("orders", "SELECT 1 AS n")
        >>> sorted(op_config_schema("sales", sales.graph()))
        ['force', 'full_refresh', 'full_refresh_all', 'strict']
    """
    fields = {
        "full_refresh_all": dg.Field(
            bool,
            default_value=False,
            description="Wipe every selected table and compute it from scratch, except tables "
            "that do not allow it.",
        ),
        "force": dg.Field(
            bool,
            default_value=False,
            description="Refresh also datasets without new input and without a new definition.",
        ),
        "strict": dg.Field(
            bool,
            default_value=False,
            description="Run nothing if a selected dataset cannot be planned. Otherwise only that "
            "dataset and the datasets that read it are skipped.",
        ),
    }
    streams = {
        name: "its stream" if len(flows) == 1 else f"all {len(flows)} streams"
        for name, flows in reset_names(graph).items()
    }
    if streams:
        fields["reset_checkpoints"] = _listed(
            f"{op_name}_stream",
            streams,
            "Append flows, or tables (all their flows), that read their streams from the "
            "beginning again and keep the existing rows; unselected ones are ignored.",
        )
    if any(table.has_partitions for table in graph.tables):
        fields["partitions"] = dg.Field(
            [str],
            default_value=[],
            description="Partitions to refresh, in datasets that have some: keys, or ranges such "
            "as 2024-01-01..2024-01-31. By default all that lie in the past and have changed; in a "
            "run with a partition key, that partition.",
        )
    tables = {name: _enum_description(dataset) for name, dataset in config_names(graph).items()}
    if tables:
        what = "Tables to wipe and compute from scratch; views and unselected tables are ignored."
        fields = {"full_refresh": _listed(f"{op_name}_table", tables, what), **fields}
    return fields


def _listed(enum: str, names: Mapping[str, str], description: str) -> dg.Field:
    """A field for a list of names."""
    values = [dg.EnumValue(name, description=text) for name, text in names.items()]
    # Dagster keeps one config schema a process for all that have equal names of fields and types.
    # An op of another definition with the same name would get the names of the first one.
    digest = hashlib.sha1(repr(names).encode(), usedforsecurity=False).hexdigest()[:8]
    enum_type = dg.Enum(f"{enum}_{digest}", values)
    return dg.Field([enum_type], default_value=[], description=description)


def _enum_description(dataset: Table | View) -> str:
    qualified = str(dataset.identifier)
    if isinstance(dataset, View):
        return f"{qualified}: a view, which has no rows to wipe; it is published"
    if dataset.reset_allowed:
        return qualified
    return f"{qualified}: full refresh not allowed (pipelines.reset.allowed=false); it is refreshed"


def full_refresh_config(op_name: str) -> dict[str, object]:
    """The run config that refreshes all selected tables fully.

    Example:
        >>> full_refresh_config("sales")
        {'ops': {'sales': {'config': {'full_refresh_all': True}}}}
    """
    return {"ops": {op_name: {"config": {"full_refresh_all": True}}}}


def requested_refresh(context: dg.AssetExecutionContext) -> RefreshRequest:
    """Read the refresh that the run's config and partition key request of all steps of this op.

    Dagster may split an op around other assets into `name` and `name_2`. A config under `ops.name`
    reaches only the first step, so every step uses the union.
    """
    own = read_request(context.op_execution_context.op_config)
    keyed = RefreshRequest(partitions=run_partitions(context))
    return own | launched_request(context, context.run) | keyed


def run_partitions(context: dg.AssetExecutionContext) -> tuple[str, ...]:
    """The partition key, or the range of keys, of a run; empty if it has none."""
    if not (context.has_partition_key or context.has_partition_key_range):
        return ()
    keys = context.partition_key_range
    return (range_text([keys.start] if keys.start == keys.end else [keys.start, keys.end]),)


def launched_request(context: dg.AssetExecutionContext, run: dg.DagsterRun) -> RefreshRequest:
    """Read the refresh that the config of a run requests of all steps of this op.

    Args:
        run: Its run, or an earlier run that it repeats.
    """
    op = context.op_execution_context.op_def.name
    steps = [node.name for node in context.job_def.nodes if node.definition.name == op]
    request = RefreshRequest()
    for config in step_configs(_resolved(context.job_def, run.run_config), steps):
        request |= read_request(config)
    return request


def _resolved(job: dg.JobDefinition, run_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A run config with the defaults of its job, which may have a `config=` of its own."""
    try:
        return dg.validate_run_config(job, run_config)
    except dg.DagsterInvalidConfigError:
        # The config of an earlier run may name tables that no longer exist.
        return run_config


def step_configs(run_config: Mapping[str, object], steps: Iterable[str]) -> list[object]:
    """Find the op configs of steps in a run config.

    Example:
        >>> step_configs({"ops": {"a_2": {"config": {"force": True}}}}, ["a", "a_2"])
        [{'force': True}]
    """
    ops = run_config.get("ops")
    blocks = [ops[step] for step in steps if step in ops] if isinstance(ops, Mapping) else []
    return [block["config"] for block in blocks if isinstance(block, Mapping) and "config" in block]


def read_request(config: object) -> RefreshRequest:
    """Read an op's config; missing fields get their defaults.

    Example:
        >>> read_request({"full_refresh_all": True}).full_refresh_all
        True
    """
    if not isinstance(config, Mapping):
        return RefreshRequest()
    return RefreshRequest(
        full_refresh=tuple(config.get("full_refresh", ())),
        full_refresh_all=bool(config.get("full_refresh_all", False)),
        force=bool(config.get("force", False)),
        reset_checkpoints=tuple(config.get("reset_checkpoints", ())),
        strict=bool(config.get("strict", False)),
        partitions=tuple(config.get("partitions", ())),
    )
