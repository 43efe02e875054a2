"""The sensor that refreshes everything downstream of a source with changed rows."""

import hashlib
import json
from collections.abc import Collection

import dagster as dg

from delta_pipelines.dagster.sources.position import SourcePosition, look_at
from delta_pipelines.dagster.sources.selection import SourceChoice, chosen_sources
from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs, build_specs
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.pipeline import Pipeline

MOVED_TAG = "delta_pipelines/moved_sources"
"""Tag of a run that the sensor started: the sources with changed rows."""
_LONGEST_TAG = 200


def build_source_sensor(
    pipeline: Pipeline,
    job: "dg.UnresolvedAssetJobDefinition | dg.JobDefinition",
    *,
    sources: SourceChoice = True,
    warehouse: str | None,
    translator: DeltaPipelineTranslator | None = None,
    on: bool = False,
    minimum_interval_seconds: int = 30,
) -> dg.SensorDefinition:
    """Build the sensor `<pipeline>_source_sensor`, which starts a refresh when sources change.

    A tick starts no JVM. It lists the Delta log of every source with a readable folder and reads
    the new commits; OPTIMIZE and VACUUM do not start a refresh. The folder comes from the source's
    last observation, or is the default one in the warehouse. For other sources, such as tables in
    an object store, it uses the data version of the last observation or materialization, so
    schedule their observation. A new source counts as changed, because its past is not known; a
    refresh without changes writes nothing.

    The sensor requests a run once. If that run fails, its assets are refreshed by Dagster's run
    retries, by a schedule, or when the source changes again.

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        job: The job to run for the affected assets.
        sources: True for all sources, or the names of the sources to watch.
        warehouse: Default folder of the tables, or the environment variable that names it. It is
            not the resource, because a tick would then start a Spark session.
        translator: The translator of the pipeline's assets, which gives the same asset keys.
        on: Whether it is on until a user switches it in the UI.
        minimum_interval_seconds: Minimum seconds between two ticks.

    Raises:
        DeclarationError: `pipeline` is not a pipeline, its graph has problems, it has no source to
            watch, or `sources` has an unknown name.

    Example:
        >>> import dagster as dg
        >>> refresh = dg.define_asset_job("refresh", selection=[sales_assets])
        >>> sensor = build_source_sensor(sales, refresh, warehouse="./warehouse")
    """
    return source_sensor_of(
        build_specs(pipeline, translator),
        job,
        sources=sources,
        warehouse=warehouse,
        on=on,
        minimum_interval_seconds=minimum_interval_seconds,
    )


def source_sensor_of(
    specs: PipelineSpecs,
    job: "dg.UnresolvedAssetJobDefinition | dg.JobDefinition",
    *,
    sources: SourceChoice,
    warehouse: str | None,
    on: bool,
    minimum_interval_seconds: int = 30,
    argument: str = "sources",
) -> dg.SensorDefinition:
    """Do what `build_source_sensor` does, for specs that are already built.

    Error messages call `sources` by the name in `argument`.
    """
    binding = specs.binding
    name = binding.pipeline.name
    chosen_specs = chosen_sources(specs, sources, argument)
    if not chosen_specs:
        raise DeclarationError(
            f"{argument}: pipeline {name} declares no source, or no source was named, so nothing "
            "could ever start a refresh; declare its inputs with source(...), or remove the sensor."
        )

    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        folder = warehouse.get_value() if isinstance(warehouse, dg.EnvVar) else warehouse
        before = read_cursor(context.cursor)
        now, moved, unknown, recorded = dict(before), [], [], 0
        for spec in chosen_specs:
            identifier = binding.identifiers[spec.key]
            sight = look_at(context.instance, spec.key, identifier, folder)
            if sight.position is None:
                unknown.append(str(identifier))
                continue
            recorded += sight.is_recorded
            if sight.moved(before.get(str(identifier))):
                moved.append(identifier)
            now[str(identifier)] = sight.position
        cursor = json.dumps({key: position.to_dict() for key, position in now.items()})
        hint = (
            f" Not found in the warehouse: {', '.join(unknown)}; observe each of them once."
            * bool(unknown)
        )
        hint += (
            f" For {recorded} of {len(chosen_specs)} sources the last observation or "
            "materialization counts, because this process cannot read their logs." * bool(recorded)
        )
        chosen = downstream(binding.graph, moved)
        if not chosen:
            return dg.SensorResult(skip_reason=f"No source has changed rows.{hint}", cursor=cursor)
        names = ", ".join(str(identifier) for identifier in moved)
        context.log.info(f"Changed rows in {names}.{hint}")
        request = dg.RunRequest(
            run_key=_run_key(context.last_run_key, context.cursor, cursor, names),
            asset_selection=[binding.key_of(identifier) for identifier in chosen],
            tags={MOVED_TAG: names[:_LONGEST_TAG]},
        )
        return dg.SensorResult(run_requests=[request], cursor=cursor)

    return dg.SensorDefinition(
        name=f"{name}_source_sensor",
        evaluation_fn=tick,
        job=job,
        minimum_interval_seconds=minimum_interval_seconds,
        description=f"Refreshes everything downstream of the changed sources of pipeline {name}.",
        default_status=dg.DefaultSensorStatus.RUNNING if on else dg.DefaultSensorStatus.STOPPED,
    )


def _run_key(*parts: str | None) -> str:
    """Build a run key from the last run's key, the cursors of two ticks, and the changed sources.

    A tick that is repeated after a crash builds the same key, so it starts no second run. The last
    run's key is part of it because Dagster ignores a key that it has seen: after a reset of the
    cursor the key must differ.
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def downstream(graph: Graph, sources: Collection[Identifier]) -> tuple[Identifier, ...]:
    """Find the tables and persisted views downstream of some sources, in topological order."""
    reached = set(sources)
    for asset in graph.assets:
        if not reached.isdisjoint(graph.inputs(asset.identifier)):
            reached.add(asset.identifier)
    return tuple(a.identifier for a in graph.assets if a.identifier in reached)


def read_cursor(cursor: str | None) -> dict[str, SourcePosition]:
    """Read the positions of the last tick; an unreadable cursor counts as empty."""
    try:
        listed = json.loads(cursor or "{}")
    except ValueError:
        return {}
    if not isinstance(listed, dict):
        return {}
    return {
        n: SourcePosition.of(values) for n, values in listed.items() if isinstance(values, dict)
    }
