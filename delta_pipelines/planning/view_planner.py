"""Plan one persisted view: whether it is published as it is declared."""

from delta_pipelines.delta.catalog.view_dry_run import check_size, rehearse_view
from delta_pipelines.delta.catalog.views import load_view, settings_kept
from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.graph.graph import Flow, Graph, View
from delta_pipelines.model.results import Action
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.planning_scope import PlanningScope
from delta_pipelines.planning.query.declared_inputs import advice
from delta_pipelines.planning.schema.ownership import adoption
from delta_pipelines.planning.schema.view_definition import (
    PUBLISHED,
    check_view_columns,
    check_view_owner,
    is_foreign,
    published_sql,
    view_changes,
    view_labels,
    why_published,
)
from delta_pipelines.planning.skipping.dependency_trace import views_between


def plan_view(scope: PlanningScope, view: View) -> DatasetPlan:
    """Plan a view, after its inputs were planned.

    Raises:
        PipelineError: The view cannot be published; the message says why and what to do.
    """
    spark, pipeline, graph = scope.spark, scope.plan.pipeline, scope.plan.graph
    existing = load_view(spark, view.identifier)
    flow = graph.flow(view.identifier)
    analysed = scope.analysis.of(flow)
    frame, inputs = analysed.frame, analysed.inputs
    sensitive = is_on(analysed.session, "spark.sql.caseSensitive", "false")
    check_view_columns(frame.schema, view.name, case_sensitive=sensitive)
    notes: tuple[str, ...] = ()
    action: Action = "create"
    reason = "the view does not exist"
    if existing is not None:
        check_view_owner(existing, flow, pipeline)
        notes = (adoption("view"),) if is_foreign(existing, flow) else ()
        kept = settings_kept(analysed.session)
        why = why_published(existing, flow, frame.schema, pipeline=pipeline, settings=kept)
        action, reason = ("refresh", why) if why else ("none", PUBLISHED)
    if action != "none":
        labelled = view_labels(view.declaration, pipeline)
        check_size(spark, published_sql(flow), labelled, view.name)
        bound = _bound(graph, flow)
        rehearse_view(analysed.session, analysed.text, view.name, bound)
    return DatasetPlan(
        name=view.name,
        identifier=view.identifier,
        kind=view.kind,
        action=action,
        reason=reason,
        schema=frame.schema,
        inputs=inputs,
        notes=(*notes, *advice(inputs)),
        schema_changes=tuple(view_changes(existing, frame.schema)) if existing else (),
        column_lineage=None if action == "none" else scope.lineage(analysed),
    )


def _bound(graph: Graph, flow: Flow) -> set[str]:
    """Names that Spark itself resolved to inputs, in a view's flow and the views behind it."""
    behind = views_between(graph, flow.target)
    flows = (flow, *(graph.flow(view.identifier) for view in behind))
    return {name.lower() for flow in flows if flow.by_name for name in flow.inputs}
