"""Decorators record declarations and leave functions as they are."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import delta_pipelines as dp


@pytest.fixture
def pipeline() -> dp.Pipeline:
    return dp.Pipeline("p", schema="s")


def airports(spark):
    """A user's function."""
    return spark


@pytest.mark.parametrize(
    "declare",
    [
        lambda p: p.materialized_view,
        lambda p: p.materialized_view(),
        lambda p: p.materialized_view(comment="x"),
        lambda p: p.materialized_view("other"),
        lambda p: p.materialized_view(name="other"),
        lambda p: p.temporary_view,
        lambda p: p.temporary_view(),
        lambda p: p.temporary_view("other"),
        lambda p: p.upsert(keys=["k"]),
        lambda p: p.upsert("other", keys=["k"], sequence_by="n"),
    ],
)
def test_decorators_work_bare_and_called_and_return_the_function_unchanged(
    pipeline: dp.Pipeline, declare: Callable[[dp.Pipeline], Any]
) -> None:
    assert declare(pipeline)(airports) is airports
    assert airports("session") == "session"
    (declaration,) = pipeline.declarations
    assert declaration.name in ("airports", "other")
    assert declaration.query is not None
    assert declaration.query.function is airports


def test_the_functions_name_is_the_datasets_unless_one_is_given(pipeline: dp.Pipeline) -> None:
    pipeline.materialized_view(airports)
    pipeline.materialized_view("sub.other")(airports)
    assert [d.name for d in pipeline.declarations] == ["airports", "sub.other"]


def test_one_function_may_fill_several_datasets(pipeline: dp.Pipeline) -> None:
    for name in ("one", "two"):
        pipeline.materialized_view(name)(airports)
    assert [t.name for t in pipeline.graph().tables] == ["one", "two"]


def test_sql_texts_are_declared_by_name(pipeline: dp.Pipeline) -> None:
    assert pipeline.materialized_view("a", "SELECT 1 AS n") is None
    assert pipeline.upsert("b", "SELECT 1 AS n", keys=["n"]) is None
    assert pipeline.view("c", "SELECT * FROM a") is None
    assert pipeline.temporary_view("d", "SELECT * FROM a") is None
    assert [(d.name, d.kind) for d in pipeline.declarations] == [
        ("a", "materialized_view"),
        ("b", "upsert"),
        ("c", "view"),
        ("d", "temporary_view"),
    ]


def test_everything_that_is_declared_is_recorded(pipeline: dp.Pipeline) -> None:
    pipeline.upsert(
        "t",
        "SELECT 1",
        keys=["k"],
        sequence_by="n",
        deletes_when="gone",
        comment="c",
        schema="other",
        partition_cols=["a", "b"],
        table_properties={"x": "y"},
        spark_conf={"spark.sql.ansi.enabled": "true"},
        inputs={"f": dp.Batch("flights")},
        owners=["team:air"],
        tags={"tier": "1"},
        group="g",
    )
    (d,) = pipeline.declarations
    assert d.upsert is not None
    assert (d.upsert.keys, d.upsert.sequence_by, d.upsert.deletes_when) == (("k",), "n", "gone")
    assert (d.comment, d.schema, d.partition_cols) == ("c", "other", ("a", "b"))
    assert (d.table_properties, d.spark_conf) == ({"x": "y"}, {"spark.sql.ansi.enabled": "true"})
    assert d.inputs == {"f": dp.Batch("flights")}
    assert (d.owners, d.tags, d.group) == (("team:air",), {"tier": "1"}, "g")


def test_a_declaration_does_not_change_with_the_callers_values(pipeline: dp.Pipeline) -> None:
    properties, columns = {"a": "1"}, ["a"]
    pipeline.materialized_view("t", "SELECT 1", table_properties=properties, partition_cols=columns)
    properties["b"] = "2"
    columns.append("b")
    (declaration,) = pipeline.declarations
    assert declaration.table_properties == {"a": "1"}
    assert declaration.partition_cols == ("a",)


def test_declarations_know_their_lines(pipeline: dp.Pipeline) -> None:
    @pipeline.materialized_view
    def first(spark): ...

    pipeline.view("second", "SELECT * FROM first")
    pipeline.source("landing.third")

    locations = [d.location for d in pipeline.declarations]
    assert all(location is not None and location.file == __file__ for location in locations)
    lines = [location.line for location in locations if location]
    assert lines == [lines[0], lines[0] + 3, lines[0] + 4]


def test_a_function_is_called_with_small_frames_like_any_other(pipeline: dp.Pipeline) -> None:
    @pipeline.upsert(keys=["icao"])
    def merged(airports_raw):
        return [*airports_raw, "KSFO"]

    assert merged(["KJFK"]) == ["KJFK", "KSFO"]


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda p: p.view(airports, "SELECT 1"), "SQL text"),
        (lambda p: p.view("v", airports), "SQL text"),
        (lambda p: p.source(airports), "name of a table"),
        (lambda p: p.materialized_view(3), "name must be a string"),
        (lambda p: p.materialized_view("t", 3), "sql must be a string"),
        (lambda p: p.materialized_view(sql="SELECT 1"), "needs a name"),
        (lambda p: p.materialized_view("t")("SELECT 1"), "decorates a function"),
        (lambda p: p.upsert(keys=["k"])(None), "decorates a function"),
    ],
)
def test_an_invalid_declaration_is_refused_at_once(
    pipeline: dp.Pipeline, declare: Callable[[dp.Pipeline], Any], why: str
) -> None:
    with pytest.raises(dp.DeclarationError, match=why):
        declare(pipeline)
    assert pipeline.declarations == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": 1, "schema": "s"},
        {"name": "p", "schema": 1},
        {"name": "p", "schema": "s", "catalog": 1},
        {"name": "p", "schema": "s", "storage": 1},
    ],
)
def test_a_pipelines_own_arguments_are_strings(arguments: dict[str, Any]) -> None:
    with pytest.raises(dp.DeclarationError):
        dp.Pipeline(**arguments)


@pytest.mark.parametrize("days", ["7", None, True, -1, float("nan"), [7]])
def test_days_that_a_checkpoint_stays_are_a_number(days: Any) -> None:
    with pytest.raises(dp.DeclarationError, match="checkpoint_retention_days must be a number"):
        dp.Pipeline("p", schema="s", checkpoint_retention_days=days)
    assert dp.Pipeline("p", schema="s", checkpoint_retention_days=0).checkpoint_retention_days == 0


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("max_concurrency", "4", "an integer, 1 or more, not str '4'"),
        ("max_concurrency", 0, "an integer, 1 or more, not int 0"),
        ("max_concurrency", 2.5, "an integer"),
        ("max_concurrency", True, "an integer"),
        ("lease_timeout", "600", "a number of seconds, 0 or more, not str '600'"),
        ("lease_timeout", None, "a number of seconds"),
        ("lease_timeout", -1, "a number of seconds"),
    ],
)
def test_how_a_run_goes_on_is_checked_before_anything_is_done(
    pipeline: dp.Pipeline, option: str, value: Any, why: str
) -> None:
    nothing: Any = None  # no session and no plan: neither is looked at
    with pytest.raises(dp.DeclarationError, match=f"{option} must be {why}"):
        pipeline.run(nothing, **{option: value})
    with pytest.raises(dp.DeclarationError, match=f"{option} must be {why}"):
        pipeline.iter_results(nothing, nothing, **{option: value})
    if option == "lease_timeout":
        with pytest.raises(dp.DeclarationError, match=f"{option} must be {why}"):
            pipeline.maintain(nothing, **{option: value})


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (lambda p: p.materialized_view("t", comment="x"), "t: it has no query: decorate a func"),
        (lambda p: p.upsert("t", keys=["k"]), "or give a SELECT as its second argument. ["),
        (lambda p: p.streaming_table("t"), "by create_streaming_table. ["),
        (lambda p: p.temporary_view("t"), "t: it has no query"),
        (lambda p: p.append_flow(target="s", name="t"), "t: it has no query: decorate a function"),
        (lambda p: p.materialized_view(), "a materialized_view without a name has no query"),
        (lambda p: p.upsert(keys=["k"]), "an upsert without a name has no query"),
    ],
)
def test_a_dataset_without_its_query_is_reported_with_its_location(
    pipeline: dp.Pipeline, begin: Callable[[dp.Pipeline], Any], message: str
) -> None:
    decorate = begin(pipeline)
    with pytest.raises(dp.DeclarationError) as caught:
        pipeline.graph()
    assert message in str(caught.value)
    [problem] = caught.value.problems
    assert problem.location is not None
    assert problem.location.file == __file__
    pipeline.create_streaming_table("s")
    decorate(airports)
    decorate(lambda spark: spark)  # one decorator may declare several
    assert pipeline.misplaced == []


def test_two_that_were_forgotten_are_two_problems(pipeline: dp.Pipeline) -> None:
    first, _ = [pipeline.materialized_view("t") for _ in range(2)]
    assert len(pipeline.misplaced) == 2
    first(airports)
    assert len(pipeline.misplaced) == 1


def test_declaring_more_after_a_graph_gives_a_new_graph(pipeline: dp.Pipeline) -> None:
    pipeline.materialized_view("a", "SELECT 1")
    before = pipeline.graph()
    pipeline.materialized_view("b", "SELECT * FROM a")
    assert [t.name for t in before.tables] == ["a"]
    assert [t.name for t in pipeline.graph().tables] == ["a", "b"]


def test_a_callable_without_a_name_needs_one() -> None:
    p = dp.Pipeline("p", schema="s")
    nameless = functools.partial(lambda spark, n: spark.range(n), n=3)
    with pytest.raises(dp.DeclarationError, match="name="):
        p.materialized_view(nameless)
    with pytest.raises(dp.DeclarationError, match="name="):
        p.upsert(keys=["id"])(nameless)
    p.materialized_view("t")(nameless)
    assert [table.name for table in p.graph().tables] == ["t"]


def test_storage_is_a_path_as_text_or_as_an_object():
    for storage in ("/lake/state", Path("/lake/state")):
        assert dp.Pipeline("p", schema="s", storage=storage).storage == "/lake/state"
    with pytest.raises(dp.DeclarationError, match="storage must be a string"):
        dp.Pipeline("p", schema="s", storage=7)


@pytest.mark.parametrize("option", ["keys", "partition_cols", "cluster_by"])
def test_a_string_instead_of_a_list_is_refused_with_the_right_form(option):
    options = {"keys": ["icao"], option: "icao"}
    with pytest.raises(dp.DeclarationError, match=rf"{option} must be a list .*write \['icao'\]"):
        dp.Pipeline("p", schema="s").upsert("t", "SELECT 1 AS icao", **options)
