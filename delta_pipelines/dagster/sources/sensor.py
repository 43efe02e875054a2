"""A sensor that refreshes what lies downstream of a source whose rows have moved."""

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
"""Tag of a run that the sensor started: which sources moved."""
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
    """Make the sensor `<pipeline>_source_sensor`, which refreshes what reads a source that moved.

    A tick starts no JVM: it lists the Delta log of every source whose folder it can read (the place
    comes from the source's last observation, else it is the warehouse's usual one), and reads the
    commits that are new; an OPTIMIZE or VACUUM starts nothing. Of other sources, as in an object
    store, it takes the data version of their last observation or materialization; schedule their
    observation. A source that it sees for the first time counts as moved, since what it has missed
    is not known; where nothing changed a refresh writes nothing.

    A run is asked for once: one that fails is repeated by Dagster's run retries, or its assets are
    refreshed by a schedule, or when the source moves again.

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        job: The job whose assets are refreshed.
        sources: Names of those to look at.
        warehouse: Folder of the tables that nobody gave another place, or the variable that names
            it. Not the resource: a tick would make whatever that needs, a Spark session among it.
        translator: The one of the pipeline's assets, so that the runs find their keys.
        on: Whether it is on in a deployment where nobody has turned it on or off.
        minimum_interval_seconds: Seconds between two ticks, at least.

    Raises:
        DeclarationError: `pipeline` is none, its graph has problems, it has no source to look at,
            or `sources` names what is none.

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
    """`build_source_sensor` of a pipeline that is translated already, with its arguments.

    Errors call `sources` by the name of `argument`.
    """
    binding = specs.binding
    name = binding.pipeline.name
    chosen_specs = chosen_sources(specs, sources, argument)
    if not chosen_specs:
        raise DeclarationError(
            f"{argument}: pipeline {name} declares no source, or none was named, so nothing could "
            "ever start a refresh; declare what it reads by source(...), or do without the sensor."
        )

    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        folder = warehouse.get_value() if isinstance(warehouse, dg.EnvVar) else warehouse
        before = read_cursor(context.cursor)
        now, moved, unknown = dict(before), [], []
        for spec in chosen_specs:
            identifier = binding.identifiers[spec.key]
            sight = look_at(context.instance, spec.key, identifier, folder)
            if sight.position is None:
                unknown.append(str(identifier))
                continue
            if sight.moved(before.get(str(identifier))):
                moved.append(identifier)
            now[str(identifier)] = sight.position
        cursor = json.dumps({key: position.to_dict() for key, position in now.items()})
        hint = f" Observe {', '.join(unknown)} once: not found in the warehouse." * bool(unknown)
        chosen = downstream(binding.graph, moved)
        if not chosen:
            return dg.SensorResult(skip_reason=f"No source has other rows.{hint}", cursor=cursor)
        names = ", ".join(str(identifier) for identifier in moved)
        context.log.info(f"Other rows in {names}.{hint}")
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
        description=f"Refreshes what reads a source of pipeline {name} when its rows have moved.",
        default_status=dg.DefaultSensorStatus.RUNNING if on else dg.DefaultSensorStatus.STOPPED,
    )


def _run_key(*parts: str | None) -> str:
    """A key by the last run's key, the cursors of two ticks, and what moved between them.

    A tick that is repeated after a crash makes the same key, and no second run. Dagster starts none
    of a key that it has seen, so the last run's key is in it: it stays when a cursor is reset.
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def downstream(graph: Graph, sources: Collection[Identifier]) -> tuple[Identifier, ...]:
    """Tables and persisted views that read some of these, directly or through others; in order.

    Args:
        graph: The pipeline's graph.
        sources: Tables of others.
    """
    reached = set(sources)
    for asset in graph.assets:
        if not reached.isdisjoint(graph.inputs(asset.identifier)):
            reached.add(asset.identifier)
    return tuple(a.identifier for a in graph.assets if a.identifier in reached)


def read_cursor(cursor: str | None) -> dict[str, SourcePosition]:
    """The positions that the last tick left; a cursor of somebody else's counts as none."""
    try:
        listed = json.loads(cursor or "{}")
    except ValueError:
        return {}
    if not isinstance(listed, dict):
        return {}
    return {
        n: SourcePosition.of(values) for n, values in listed.items() if isinstance(values, dict)
    }
