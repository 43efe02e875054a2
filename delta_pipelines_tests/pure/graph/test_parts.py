"""Temporary views that are read in many ways are walked through once."""

from time import monotonic

import pytest

import delta_pipelines as dp
from delta_pipelines.dagster.specs.upstream import code_version, upstream_identifiers
from delta_pipelines.graph.graph import Graph
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.planning.skipping.dependency_trace import tables_behind, views_between

LAYERS = 40


@pytest.fixture
def diamonds() -> Graph:
    """Layers of two temporary views, of which each reads both below: 2 to the 40th ways down."""
    p = dp.Pipeline("p", schema="s")
    p.source("raw.landing")
    below = ["raw.landing"]
    for layer in range(LAYERS):
        names = [f"v{layer}_{side}" for side in "ab"]
        for name in names:
            tables = " JOIN ".join(below)
            inputs = {} if layer else {"raw.landing": dp.Stream("raw.landing")}
            p.temporary_view(name, f"SELECT * FROM {tables}", inputs=inputs or None)
        below = names
    p.upsert("t", f"SELECT * FROM {below[0]} JOIN {below[1]}", keys=["id"])
    return p.graph()


def test_forty_layers_are_walked_through_in_a_second(diamonds: Graph) -> None:
    began = monotonic()
    target = diamonds.tables["t"].identifier
    landing = diamonds.sources["raw.landing"].identifier
    assert diamonds.inputs(target) == (landing,)
    assert diamonds.flow_inputs(diamonds.flow(target)) == (landing,)
    assert stream_inputs(diamonds, diamonds.flow(target)) == (landing,)
    assert upstream_identifiers(diamonds, target) == (landing,)
    assert len(code_version(diamonds, target)) == 16
    assert tables_behind(diamonds, target) == {landing}
    assert len(views_between(diamonds, target)) == 2 * LAYERS
    parts = diamonds.parts(target)
    assert (parts[0], len(parts), len(set(parts))) == (target, 1 + 2 * LAYERS, 1 + 2 * LAYERS)
    assert monotonic() - began < 1


def test_parts_and_inputs_come_in_the_order_in_which_they_are_read() -> None:
    p = dp.Pipeline("p", schema="s")
    for name in ("a", "b", "c"):
        p.materialized_view(name, "SELECT 1 AS id")
    p.temporary_view("deep", "SELECT * FROM c")
    p.temporary_view("first", "SELECT * FROM b JOIN deep")
    p.temporary_view("second", "SELECT * FROM deep JOIN first")
    p.materialized_view("end", "SELECT * FROM first JOIN a JOIN second JOIN b")
    p.view("seen", "SELECT * FROM end")
    graph = p.graph()
    end, seen = (graph.find(name).identifier for name in ("end", "seen"))
    assert [i.name for i in graph.parts(end)] == ["end", "first", "deep", "second"]
    assert [i.name for i in graph.inputs(end)] == ["b", "c", "a"]
    assert (graph.parts(seen), graph.inputs(seen)) == ((seen,), (end,))


def test_inputs_among_the_given_datasets_are_found_through_other_views() -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("a", "SELECT 1 AS id")
    p.view("v", "SELECT * FROM a")
    p.view("w", "SELECT v.id FROM v JOIN a USING (id)")
    p.materialized_view("b", "SELECT * FROM w")
    p.materialized_view("c", "SELECT * FROM b")
    graph = p.graph()
    a, v, w, b, c = (dataset.identifier for dataset in graph.assets)
    assert graph.inputs_among(b, {a, b, c}) == (a,)
    assert graph.inputs_among(b, {a, v}) == (a, v)
    assert graph.inputs_among(b, {a, v, w}) == (w,)
    assert graph.inputs_among(c, {a, v, w}) == ()
    assert graph.inputs_among(a, {v, w, b, c}) == ()
