"""Whether a refresh would change anything, decided by values; against a model that knows nothing
of values and only follows what each change makes stale.
"""

import json
import random
from dataclasses import dataclass, field, replace

import pytest

import delta_pipelines as dp
from delta_pipelines.model.table_state import TableVersion
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.dependency_trace import tables_behind, views_between
from delta_pipelines.planning.skipping.skip_decision import judge, judge_overtaken
from delta_pipelines.user_code.definition_hash import definition_hash

BASE = Dependencies(
    definition="d",
    plan="p",
    engine="Spark 4.2.0, Delta 4.4.0",
    tables={"s.a": TableVersion("id", 3)},
    views={"s.v": "h"},
    files={"file:/x": "f"},
    functions={"double": "c"},
    settings={"spark.sql.ansi.enabled": "true"},
)
LAST = LastWrite(7, ours=True, dependencies=BASE)


def test_an_unchanged_dataset_says_since_when() -> None:
    verdict = judge(LAST, BASE)
    assert (verdict.unchanged, verdict.reason) == (True, "nothing changed since version 7")


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"definition": "e"}, "its definition changed"),
        ({"plan": "q"}, "its query has another plan"),
        (
            {"engine": "Spark 5"},
            "it was computed by Spark 4.2.0, Delta 4.4.0, and the session has Spark 5",
        ),
        ({"tables": {"s.a": TableVersion("id", 4)}}, "s.a changed (version 3 -> 4)"),
        ({"tables": {"s.a": TableVersion("other", 3)}}, "s.a was dropped and created again"),
        ({"tables": {}}, "it reads s.a no longer"),
        (
            {"tables": {**BASE.tables, "s.b": TableVersion("id", 0)}},
            "it reads s.b now",
        ),
        ({"views": {"s.v": "i"}}, "the view s.v changed"),
        ({"files": {"file:/x": "g"}}, "the files in file:/x changed"),
        ({"functions": {"double": "d"}}, "the function double changed"),
        ({"modules": "n"}, "one of your Python files changed, which its functions may use"),
        (
            {"libraries": "n"},
            "Python or an installed library changed, which its functions may use",
        ),
        (
            {"settings": {"spark.sql.ansi.enabled": "false"}},
            "the setting spark.sql.ansi.enabled changed (true -> false)",
        ),
        ({"without_version": ("it calls rand()", "it reads a")}, "it calls rand(); it reads a"),
    ],
)
def test_every_change_is_a_reason_to_refresh(now, why) -> None:
    verdict = judge(LAST, replace(BASE, **now))
    assert (verdict.unchanged, verdict.reason) == (False, why)


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ("one", None),
        ("another", "s.a was replaced by an older copy (its version 3 is another commit)"),
        ("", "the commit of version 3 of s.a was not recorded"),
    ],
)
def test_the_same_version_counts_as_the_same_rows_only_of_the_same_commit(read, why) -> None:
    now = replace(BASE, tables={"s.a": TableVersion("id", 3, "one")})
    tables = now.to_dict()["tables"]
    if not read:  # as the version before recorded it
        del tables["s.a"]["commit"]
        text = json.dumps({**now.to_dict(), "tables": tables})
        recorded = Dependencies.from_dict(json.loads(text))
    else:
        recorded = replace(BASE, tables={"s.a": TableVersion("id", 3, read)})
    verdict = judge(replace(LAST, dependencies=recorded), now)
    assert verdict.unchanged is (why is None)
    assert why is None or verdict.reason == why


def test_a_run_is_not_overtaken_by_one_that_read_another_commit_of_the_same_version() -> None:
    tables = {"s.a": TableVersion("id", 3, "one"), "s.b": TableVersion("id", 9, "b")}
    read = replace(BASE, tables=tables)
    last = replace(LAST, dependencies=read)
    older = {"s.b": TableVersion("id", 8, "older")}
    assert judge_overtaken(last, replace(read, tables={**tables, **older})) is not None
    other = {"s.a": TableVersion("id", 3, "other")}
    assert judge_overtaken(last, replace(read, tables={**tables, **older, **other})) is None


@pytest.mark.parametrize(
    ("last", "options", "why"),
    [
        (LAST, {"force": True}, "`force` is set"),
        (LAST, {"changes": ["property + k = v"]}, "its definition changed (property + k = v)"),
        (LastWrite(8, ours=False), {}, "another writer changed its rows at version 8"),
        (
            LastWrite(8, ours=True),
            {},
            "version 8 does not record its dependencies",
        ),
    ],
)
def test_other_changes_make_a_refresh(last, options, why) -> None:
    verdict = judge(last, BASE, **options)
    assert (verdict.unchanged, verdict.reason) == (False, why)


def test_an_input_without_a_version_never_leaves_a_table_alone() -> None:
    before = replace(BASE, without_version=("it runs Python on its rows (f)",))
    verdict = judge(replace(LAST, dependencies=before), BASE)
    assert not verdict.unchanged
    assert "had a dependency without a version (it runs Python on its rows (f))" in verdict.reason


@pytest.mark.parametrize(
    ("now", "unchanged"),
    [
        ({"tables": {"s.a": TableVersion("id", 2)}}, True),
        ({"tables": {"s.a": TableVersion("id", 4)}}, False),
        ({"tables": {"s.a": TableVersion("other", 2)}}, False),
        ({"tables": {"s.a": TableVersion("id", 2), "s.b": TableVersion("id", 1)}}, False),
        ({"tables": {"s.a": TableVersion("id", 2)}, "definition": "e"}, False),
        ({"tables": {"s.a": TableVersion("id", 2)}, "plan": "of fewer columns"}, True),
        ({"plan": "of fewer columns"}, False),
        ({"tables": {"s.a": TableVersion("id", 2)}, "without_version": ("now() moves",)}, False),
        ({}, False),
    ],
)
def test_a_run_that_was_overtaken_brings_no_older_rows_back(now, unchanged) -> None:
    read = replace(BASE, **now)
    assert (judge_overtaken(LAST, read) is not None) is unchanged
    # Otherwise it is a table put back from a backup that has an older version.
    assert judge(LAST, read).unchanged is (read == BASE)
    assert judge_overtaken(replace(LAST, ours=False), read) is None
    assert judge_overtaken(replace(LAST, dependencies=None), read) is None


def test_dependencies_survive_a_commit_and_other_formats_do_not() -> None:
    recorded = json.loads(json.dumps(BASE.to_dict()))
    assert Dependencies.from_dict(recorded) == BASE
    for bad in (None, [], {}, {**recorded, "format": 2}, {**recorded, "tables": {"a": 1}}):
        assert Dependencies.from_dict(bad) is None


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        ({"pipeline": "p", "dataset": "s.t"}, True),
        ({"pipeline": "q", "dataset": "s.t"}, False),
        ({"pipeline": "p", "dataset": "s.u"}, False),
        ("text", False),
    ],
)
def test_a_commit_is_ours_when_it_names_pipeline_and_dataset(said, ours) -> None:
    last = LastWrite.of(1, json.dumps(said), pipeline="p", dataset="s.t")
    assert last == LastWrite(1, ours)
    assert not LastWrite.of(1, None, pipeline="p", dataset="s.t").ours
    assert not LastWrite.of(1, "no json {", pipeline="p", dataset="s.t").ours


@dataclass
class Node:
    """One dataset of a random graph."""

    name: str
    kind: str
    parents: list[str]
    constant: int = 0
    volatile: bool = False


@dataclass
class Graph:
    """A random graph, what is in its tables, and the model's idea of what is stale."""

    nodes: dict[str, Node]
    versions: dict[str, TableVersion] = field(default_factory=dict)
    writes: dict[str, LastWrite] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    setting: int = 0
    stale: set[str] = field(default_factory=set)

    def pipeline(self) -> dp.Pipeline:
        made = dp.Pipeline("p", schema="s")
        for node in self.nodes.values():
            if node.kind == "source":
                made.source(node.name)
                continue
            tables = ", ".join(node.parents)
            sql = f"SELECT {node.constant} AS n" + (f" FROM {tables}" if tables else "")
            options = {"keys": ["n"]} if node.kind == "upsert" else {}
            getattr(made, node.kind)(node.name, sql, **options)
        return made

    # The model: a change makes its readers stale, through views; a write does the same.

    def touch(self, name: str) -> None:
        for node in self.nodes.values():
            if name in node.parents:
                if node.kind in ("materialized_view", "upsert"):
                    self.stale.add(node.name)
                else:
                    self.touch(node.name)

    def bump(self, name: str) -> None:
        before = self.versions.get(name, TableVersion(name, -1))
        self.versions[name] = TableVersion(before.table_id, before.version + 1)


def random_graph(rng: random.Random) -> Graph:
    nodes: dict[str, Node] = {}
    for number in range(rng.randint(4, 9)):
        kinds = ["materialized_view", "materialized_view", "upsert", "temporary_view", "view"]
        name = f"n{number}"
        if number < 2:
            nodes[name] = Node(name, "source", [])
            continue
        kind = rng.choice(kinds)
        known = [n for n in nodes if kind != "view" or nodes[n].kind != "temporary_view"]
        parents = rng.sample(known, k=rng.randint(1, min(3, len(known))))
        nodes[name] = Node(name, kind, parents, volatile=rng.random() < 0.08)
    graph = Graph(nodes)
    for node in nodes.values():
        if node.kind == "source":
            graph.bump(node.name)
        elif node.kind in ("materialized_view", "upsert"):
            graph.stale.add(node.name)
            graph.files[node.name] = 0
    return graph


def change(graph: Graph, rng: random.Random) -> str:
    """Change one thing; the model notes what that makes stale."""
    tables = list(graph.files)
    kinds = [
        "nothing",
        "source",
        "optimize",
        "definition",
        "foreign",
        "files",
        "setting",
        "recreated",
    ]
    what = rng.choice(kinds)
    name = rng.choice(list(graph.nodes))
    node = graph.nodes[name]
    if what in ("source", "recreated"):
        name = rng.choice([n.name for n in graph.nodes.values() if n.kind == "source"])
        graph.bump(name)
        if what == "recreated":
            graph.versions[name] = TableVersion(f"{name}-{rng.random()}", 0)
        graph.touch(name)
    elif what == "definition" and node.kind != "source":
        node.constant += 1
        graph.stale.add(name) if name in graph.files else graph.touch(name)
    elif what in ("foreign", "files") and tables:
        name = rng.choice(tables)
        if what == "files":
            graph.files[name] += 1
        elif name in graph.writes:
            graph.bump(name)
            graph.writes[name] = LastWrite(graph.versions[name].version, ours=False)
            graph.touch(name)
        graph.stale.add(name)
    elif what == "setting":
        graph.setting += 1
        graph.stale.update(tables)
    return what


def run(graph: Graph, rng: random.Random) -> tuple[int, int]:
    """Run some or all datasets; compare every decision with the model. Gives (decided, run)."""
    resolved = graph.pipeline().graph()
    tables = [i for i in resolved.order if i.name in graph.files]
    chosen = tables if rng.random() < 0.8 else [i for i in tables if rng.random() < 0.6]
    force, decided, written = rng.random() < 0.05, 0, 0
    for identifier in chosen:
        node = graph.nodes[identifier.name]
        now = Dependencies(
            definition=definition_hash(resolved[identifier].declaration),
            tables={str(i): graph.versions[i.name] for i in tables_behind(resolved, identifier)}
            if all(i.name in graph.versions for i in tables_behind(resolved, identifier))
            else {},
            views={
                str(v.identifier): definition_hash(v.declaration)
                for v in views_between(resolved, identifier)
            },
            files={"file:/landing": str(graph.files[node.name])},
            settings={"spark.sql.session.timeZone": str(graph.setting)},
            without_version=("it calls rand()",) if node.volatile else (),
        )
        behind = {i.name for i in tables_behind(resolved, identifier)}
        if not behind <= set(graph.versions):
            continue  # an input does not exist yet: a run would refuse
        expected = force or node.volatile or node.name in graph.stale
        last = graph.writes.get(node.name)
        verdict = judge(last, now, force=force) if last else None
        refreshed = verdict is None or not verdict.unchanged
        assert refreshed == expected, (node, verdict, graph)
        decided += 1
        if refreshed:
            written += 1
            graph.bump(node.name)
            version = graph.versions[node.name].version
            recorded = Dependencies.from_dict(json.loads(json.dumps(now.to_dict())))
            graph.writes[node.name] = LastWrite(version, ours=True, dependencies=recorded)
            graph.stale.discard(node.name)
            graph.touch(node.name)
    return decided, written


def test_random_graphs_and_changes_are_decided_as_a_model_of_staleness_does(
    record_property,
) -> None:
    rng = random.Random(4)
    rounds = decided = written = 0
    seen: dict[str, int] = {}
    for _ in range(150):
        graph = random_graph(rng)
        run(graph, rng)
        for _ in range(9):
            for _ in range(rng.choice([0, 1, 1, 2])):
                what = change(graph, rng)
                seen[what] = seen.get(what, 0) + 1
            one = run(graph, rng)
            rounds, decided, written = rounds + 1, decided + one[0], written + one[1]
    assert rounds >= 1_000
    assert decided >= 2_500
    assert decided / 5 < written < decided * 4 / 5, "both answers are common"
    summary = f"skipping: {rounds} changes of 150 graphs, {decided} decisions, {written} refreshes"
    record_property("proved", summary)
