"""A plan is a value: it is printed, made into JSON and thrown away, and nothing has changed."""

import json
from pathlib import Path

import pytest

from delta_pipelines_tests.support.pipelines import (
    Feed,
    merged,
    mirror,
    run_well,
    scratch,
    tables_of,
    version_of,
)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"))


def folder_content(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*")}


def test_a_printed_plan_reads_like_a_diff(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed, table_properties={"gone": "1"})
    mirror(pipeline, "wiped", feed)
    run_well(pipeline, spark)

    feed.set((1, 1.5), columns="id BIGINT, price DOUBLE")
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed, comment="new", table_properties={"k": "2"}, partition_cols=["id"])
    mirror(pipeline, "wiped", feed)
    mirror(pipeline, "fresh", feed)
    pipeline.materialized_view("broken", "SELECT nope FROM t")
    pipeline.materialized_view("after", "SELECT * FROM broken")
    lines = str(pipeline.plan(spark, full_refresh=["wiped"])).splitlines()

    assert lines[0] == (
        "Plan of pipeline scratch: 1 refresh, 1 full refresh, 1 create, 1 not possible, 1 skipped"
    )
    assert lines[1].startswith(f"~ {schema}.t (materialized_view): refresh - ")
    for change in (
        "column + price double",
        "column - v string",
        "column ~ id type: int -> bigint",
        "property - gone = 1",
        "property + k = 2",
        "layout: neither partitioned nor clustered -> partitioned by id",
        "comment: None -> 'new'",
    ):
        assert f"    {change}" in lines
    starts = [line.split(" (")[0] for line in lines if not line.startswith(" ")]
    assert f"! {schema}.wiped" in starts
    assert f"+ {schema}.fresh" in starts
    assert f"x {schema}.broken" in starts
    assert f"x {schema}.after" in starts
    assert "    2 columns: id, price" in lines


def test_a_plan_is_plain_values_for_json(spark, schema, feed):
    pipeline = scratch(schema)
    merged(
        pipeline, "kept", feed, keys=["id"], table_properties={"pipelines.reset.allowed": "false"}
    )
    pipeline.view("v", "SELECT id FROM kept")
    pipeline.materialized_view("broken", "SELECT nope FROM kept")
    document = json.loads(json.dumps(pipeline.plan(spark, full_refresh=["kept"]).to_dict()))

    assert document["pipeline"] == "scratch"
    assert [(d["name"], d["kind"], d["action"]) for d in document["datasets"]] == [
        ("kept", "upsert", "create"),
        ("v", "view", "create"),
        ("broken", "materialized_view", "none"),
    ]
    assert document["reset_blocked"] == [f"{schema}.kept"]
    assert document["datasets"][1]["inputs"][0]["table"] == f"{schema}.kept"
    assert "nope" in document["errors"][0]
    assert document["datasets"][2]["error"].startswith("broken: ")


def test_planning_changes_nothing(spark, schema, feed, warehouse):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t")
    run_well(pipeline, spark)
    feed.set((1, "a", 2), columns="id INT, v STRING, n INT")
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed, comment="other", table_properties={"k": "v"})
    mirror(pipeline, f"{schema}_new.u", feed)
    pipeline.view("v", "SELECT n FROM t")
    pipeline.view("w", "SELECT n FROM v")
    folder = next(p for p in warehouse.rglob(f"{schema}.db") if p.is_dir())
    before = folder_content(folder)
    tables = tables_of(spark, schema)

    plan = pipeline.plan(spark, full_refresh_all=True)
    str(plan), plan.to_dict()

    assert [d.error for d in plan.datasets.values()] == [None] * 4
    assert folder_content(folder) == before
    assert version_of(spark, f"{schema}.t") == 0
    assert tables_of(spark, schema) == tables == ["t", "v"]
    assert not spark.catalog.databaseExists(f"{schema}_new")
    assert not list(warehouse.rglob(f"{schema}_new.db"))
