"""Problems of a pipeline are found without a JVM: all at once, with their locations."""

import pytest

import delta_pipelines as dp
from delta_pipelines_tests.pure.graph.declaring import numbers, only_problem, pipeline, problems


def test_a_dataset_that_is_declared_twice_is_refused_with_both_locations() -> None:
    p = pipeline()
    numbers(p, "t")
    p.view("S.T", "SELECT 1")
    with pytest.raises(dp.DeclarationError, match="declared twice") as caught:
        p.graph()
    first, second = p.declarations
    assert str(first.location) in str(caught.value)
    assert str(second.location) in str(caught.value)


def test_one_name_for_two_datasets_is_refused_with_the_way_out() -> None:
    p = pipeline()
    p.materialized_view("t", "SELECT 1", schema="one")
    p.materialized_view("t", "SELECT 2", schema="two")
    problem = only_problem(p)
    assert "one.t" in problem
    assert "'two.t'" in problem


def test_nothing_is_made_in_sparks_schema_of_temporary_views() -> None:
    for declare in (pipeline().materialized_view, pipeline().view):
        declare("Global_Temp.t", "SELECT 1 AS n")
        assert "Spark reserves the schema global_temp" in only_problem(declare.__self__)
    p = pipeline()
    p.source("global_temp.t")
    p.materialized_view("other.global_temp.t", "SELECT 1 AS n")
    p.graph()


def test_a_circle_is_named_in_order() -> None:
    p = pipeline()
    p.materialized_view("a", "SELECT * FROM c")
    p.view("b", "SELECT * FROM a")
    p.materialized_view("c", "SELECT * FROM b JOIN d")
    numbers(p, "d")
    with pytest.raises(dp.CyclicDependencyError, match="a -> c -> b -> a") as caught:
        p.graph()
    assert f"{__file__}:" in str(caught.value)


def test_a_dataset_that_reads_itself_is_a_circle() -> None:
    p = pipeline()

    @p.materialized_view
    def a(a): ...

    with pytest.raises(dp.CyclicDependencyError, match="a -> a"):
        p.graph()


def test_two_circles_are_both_named() -> None:
    p = pipeline()
    p.materialized_view("a", "SELECT * FROM b JOIN x")
    p.materialized_view("b", "SELECT * FROM a")
    p.materialized_view("x", "SELECT * FROM y")
    p.materialized_view("y", "SELECT * FROM x")
    with pytest.raises(dp.CyclicDependencyError) as caught:
        p.graph()
    assert "a -> b -> a" in str(caught.value)
    assert "x -> y -> x" in str(caught.value)


def test_a_persisted_view_over_a_temporary_view_is_refused() -> None:
    p = pipeline()
    p.temporary_view("scratch", "SELECT 1")
    p.view("shown", "SELECT * FROM scratch")
    with pytest.raises(dp.DeclarationError, match="temporary view 'scratch'") as caught:
        p.graph()
    assert caught.value.problems[0].dataset == "shown"


def test_views_over_views_tables_and_sources_are_allowed() -> None:
    p = pipeline()
    p.source("landing.raw")
    numbers(p, "t")
    p.view("one", "SELECT * FROM t JOIN landing.raw")
    p.view("two", "SELECT * FROM one")
    p.materialized_view("end", "SELECT * FROM two")
    assert [a.name for a in p.graph().assets] == ["t", "one", "two", "end"]


def test_an_unread_temporary_view_is_a_warning() -> None:
    p = pipeline()
    p.temporary_view("scratch", "SELECT 1")
    p.temporary_view("read", "SELECT 1")
    p.materialized_view("t", "SELECT * FROM read")
    (warning,) = p.graph().warnings
    assert "scratch" in warning
    assert f"{__file__}:" in warning


def test_partition_and_cluster_columns_together_are_refused() -> None:
    p = pipeline()
    p.materialized_view("t", "SELECT 1 AS a", partition_cols=["a"], cluster_by=["b"])
    problem = only_problem(p)
    assert "partition_cols" in problem
    assert "cluster_by" in problem


@pytest.mark.parametrize("option", ["partition_cols", "cluster_by", "keys"])
def test_a_column_that_is_named_twice_is_refused(option: str) -> None:
    p = pipeline()
    options = {"keys": ["k"], option: ["a", "b", "A"]}
    p.upsert("t", "SELECT 1", **options)
    problem = only_problem(p)
    assert option in problem
    assert "'A'" in problem


def test_an_upsert_without_keys_is_refused() -> None:
    p = pipeline()
    p.upsert("t", "SELECT 1", keys=[])
    assert "keys" in only_problem(p)


def test_unknown_pipelines_properties_are_refused() -> None:
    p = pipeline()
    p.materialized_view("t", "SELECT 1", table_properties={"pipelines.reset.alowed": "false"})
    assert "did you mean 'pipelines.reset.allowed'?" in only_problem(p)


@pytest.mark.parametrize("name", ["spark", "other.SPARK", "__dp_x", "s.__DP_input_0"])
def test_reserved_names_are_refused(name: str) -> None:
    p = pipeline()
    numbers(p, name)
    assert only_problem(p)


HOSTILE = [
    "`",
    "a`b",
    "`a`",
    "a'b",
    'a"b',
    "a b",
    "a\nb",
    "a\0b",
    "a;b",
    "a-b",
    "",
    ".",
    "a.",
    ".a",
    "a..b",
    "a.b.c.d",
    "\uff41",
    "\u0430",
    "\u00e9",
    "\u0661",
    "a\u200b",
    "t\n",
    "x" * 300,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_illegal_names_are_refused_before_any_sql(name: str) -> None:
    p = pipeline()
    numbers(p, name)
    assert only_problem(p)


@pytest.mark.parametrize("name", [*HOSTILE, "a.b"])
@pytest.mark.parametrize("part", ["schema", "catalog", "option"])
def test_illegal_schemas_and_catalogs_are_refused_before_any_sql(name: str, part: str) -> None:
    p = pipeline() if part == "option" else pipeline(**{part: name})
    p.materialized_view("t", "SELECT 1", **({"schema": name} if part == "option" else {}))
    assert problems(p)


@pytest.mark.parametrize("name", ["select", "table", "from", "T", "_", "0", "1a", "x" * 128])
def test_legal_names_are_accepted_reserved_words_of_sql_too(name: str) -> None:
    p = pipeline()
    numbers(p, name)
    assert p.graph().tables[0].identifier.name == name.lower()


def test_a_pipelines_own_name_is_checked() -> None:
    p = dp.Pipeline("my pipeline", schema="s")
    assert "'my pipeline'" in only_problem(p)


def test_all_problems_of_a_pipeline_are_reported_at_once_with_locations() -> None:
    p = pipeline()
    p.materialized_view("bad name", "SELECT 1")
    p.materialized_view("twice", "SELECT 1")
    p.materialized_view("twice", "SELECT 1")
    p.materialized_view("both", "SELECT 1", partition_cols=["a"], cluster_by=["a"])
    p.materialized_view("property", "SELECT 1", table_properties={"pipelines.x": "1"})
    p.materialized_view("a", "SELECT * FROM b")
    p.materialized_view("b", "SELECT * FROM a")
    p.temporary_view("scratch", "SELECT 1")
    p.view("shown", "SELECT * FROM scratch")
    p.view("unknown", "SELECT * FROM nowhere")
    p.upsert("keyless", "SELECT 1", keys=[])

    with pytest.raises(dp.DeclarationError) as caught:
        p.graph()

    problems = caught.value.problems
    expected = ["bad name", "twice", "both", "property", "a", "shown", "unknown", "keyless"]
    assert sorted(str(problem.dataset) for problem in problems) == sorted(expected)
    for problem in problems:
        locations = [d.location for d in p.declarations if d.name == problem.dataset]
        assert problem.location in locations
        assert str(problem.location) in str(caught.value)
        assert problem.message in str(caught.value)


def test_a_mixture_of_problems_is_a_plain_declaration_error() -> None:
    p = pipeline()
    p.materialized_view("a", "SELECT * FROM a")
    p.materialized_view("b", "SELECT * FROM nowhere")
    with pytest.raises(dp.DeclarationError) as caught:
        p.graph()
    assert type(caught.value) is dp.DeclarationError


def test_the_session_catalog_named_or_not_is_one_catalog() -> None:
    p = pipeline()
    numbers(p, "t")
    p.materialized_view("spark_catalog.s.t", "SELECT 1")
    with pytest.raises(dp.DeclarationError, match="declared twice"):
        p.graph()


def test_a_name_with_the_session_catalog_finds_a_dataset_without_it() -> None:
    p = pipeline()
    numbers(p, "t")
    p.materialized_view("u", "SELECT * FROM spark_catalog.s.t")
    graph = p.graph()
    assert [str(i) for i in graph.inputs(graph.tables["u"].identifier)] == ["s.t"]


@pytest.mark.parametrize("option", ["sequence_by", "deletes_when"])
@pytest.mark.parametrize(
    "text", ["count(*) > 1", "row_number() OVER (ORDER BY n)", "*", "n >", "(SELECT 1)"]
)
def test_an_upserts_expressions_are_about_one_row(option: str, text: str) -> None:
    p = pipeline()
    p.upsert("t", "SELECT 1 AS n", keys=["n"], **{option: text})
    assert only_problem(p).startswith(f"{option}: ")


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_a_dataset_that_replaces_rows_is_not_append_only(kind: str) -> None:
    p = pipeline()
    keys = {"keys": ["n"]} if kind == "upsert" else {}
    properties = {"delta.appendOnly": "true"}
    getattr(p, kind)("t", "SELECT 1 AS n", table_properties=properties, **keys)
    assert "delta.appendOnly" in only_problem(p)


def test_an_append_flow_may_not_have_its_tables_name_in_any_spelling() -> None:
    p = pipeline()
    p.source("landing.rows")
    p.create_streaming_table("s.t")

    @p.append_flow(target="s.t")
    def t(rows): ...

    assert any("the name is the table's" in problem for problem in problems(p))
