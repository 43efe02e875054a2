"""From declarations to a graph: names, inputs, order, and every problem at once."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.errors import UnknownDatasetError
from delta_pipelines.graph.sql_inputs import replace_names
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.pure.graph.declaring import numbers, only_problem, pipeline


def test_a_graph_lists_each_kind_in_the_order_of_declaration() -> None:
    p = pipeline()
    p.source("landing.raw")
    p.view("shown", "SELECT * FROM merged")
    p.upsert("merged", "SELECT * FROM scratch", keys=["n"])
    p.temporary_view("scratch", "SELECT * FROM numbers JOIN landing.raw")
    numbers(p, "numbers")

    graph = p.graph()

    assert [(t.name, t.kind, str(t.identifier)) for t in graph.tables] == [
        ("merged", "upsert", "s.merged"),
        ("numbers", "materialized_view", "s.numbers"),
    ]
    assert [(v.name, v.kind) for v in graph.views] == [
        ("shown", "view"),
        ("scratch", "temporary_view"),
    ]
    assert [str(source.identifier) for source in graph.sources] == ["landing.raw"]
    assert [f.name for f in graph.flows] == ["shown", "merged", "scratch", "numbers"]
    assert [str(i) for i in graph.order] == ["s.numbers", "s.scratch", "s.merged", "s.shown"]
    assert [a.name for a in graph.assets] == ["numbers", "merged", "shown"]
    assert graph.warnings == ()


def test_inputs_are_seen_through_temporary_views() -> None:
    p = pipeline()
    p.source("landing.raw")
    numbers(p, "numbers")
    p.temporary_view("one", "SELECT * FROM numbers JOIN landing.raw")
    p.temporary_view("two", "SELECT * FROM one JOIN numbers")
    p.materialized_view("end", "SELECT * FROM two")
    graph = p.graph()
    end = graph.tables["end"].identifier
    assert {str(i) for i in graph.inputs(end)} == {"s.numbers", "landing.raw"}


@pytest.mark.parametrize(
    ("declared", "qualified"),
    [("t", "c.s.t"), ("Other.T", "c.other.t"), ("K.Other.T", "k.other.t")],
)
def test_names_are_resolved_to_catalog_schema_table(declared: str, qualified: str) -> None:
    p = pipeline(catalog="C", schema="S")
    numbers(p, declared)
    (table,) = p.graph().tables
    assert str(table.identifier) == qualified
    assert table.name == declared


def test_without_a_catalog_the_name_has_two_parts() -> None:
    p = pipeline()
    numbers(p, "T")
    assert p.graph().tables[0].identifier == Identifier(None, "s", "t")


def test_the_option_schema_moves_a_dataset() -> None:
    p = pipeline()
    p.materialized_view("t", "SELECT 1", schema="Elsewhere")
    assert str(p.graph().tables[0].identifier) == "elsewhere.t"


def test_a_flow_knows_where_its_unqualified_names_stand() -> None:
    p = pipeline(catalog="c", schema="S")
    numbers(p, "t")
    flow = p.graph().flows["t"]
    assert (flow.catalog, flow.schema) == ("c", "s")


def test_an_empty_pipeline_is_an_empty_graph() -> None:
    graph = pipeline().graph()
    assert not list(graph.tables)
    assert graph.order == ()


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_any_order_of_declaration_gives_an_order_in_which_inputs_come_first(
    declared: list[str],
) -> None:
    queries = {"a": "1", "b": "* FROM a", "c": "* FROM b JOIN a", "d": "1", "e": "* FROM d JOIN c"}
    p = pipeline()
    for name in declared:
        p.materialized_view(name, f"SELECT {queries[name]}")
    graph = p.graph()
    order = [identifier.name for identifier in graph.order]
    assert sorted(order) == list("abcde")
    for flow in graph.flows:
        for upstream in flow.inputs.values():
            assert order.index(upstream.name) < order.index(flow.name)


def test_a_parameter_is_an_input_and_spark_is_not() -> None:
    p = pipeline()
    numbers(p, "numbers")

    @p.materialized_view
    def doubled(spark, numbers): ...

    assert dict(p.graph().flows["doubled"].inputs) == {"numbers": Identifier(None, "s", "numbers")}


def test_a_keyword_only_parameter_is_an_input_too() -> None:
    p = pipeline()
    numbers(p, "numbers")

    @p.materialized_view
    def doubled(*, numbers, spark): ...

    assert list(p.graph().flows["doubled"].inputs) == ["numbers"]


def test_inputs_bind_other_names_and_other_schemas() -> None:
    p = pipeline()
    numbers(p, "flights", "other.airports")

    @p.materialized_view(inputs={"f": "flights", "a": dp.Batch("other.airports")})
    def delays(f, a): ...

    assert {k: str(v) for k, v in p.graph().flows["delays"].inputs.items()} == {
        "f": "s.flights",
        "a": "other.airports",
    }


def test_a_parameter_finds_the_one_dataset_with_that_last_part() -> None:
    p = pipeline()
    p.source("landing.flights")

    @p.materialized_view
    def delayed(flights): ...

    assert str(p.graph().flows["delayed"].inputs["flights"]) == "landing.flights"


def test_the_pipelines_own_schema_wins_over_others() -> None:
    p = pipeline()
    p.source("landing.flights")
    numbers(p, "flights")

    @p.materialized_view
    def delayed(flights): ...

    assert str(p.graph().flows["delayed"].inputs["flights"]) == "s.flights"


def test_a_parameter_that_may_mean_two_datasets_is_refused() -> None:
    p = pipeline()
    p.source("one.flights")
    p.source("two.flights")

    @p.materialized_view
    def delayed(flights): ...

    problem = only_problem(p)
    assert "one.flights" in problem
    assert "two.flights" in problem
    assert "inputs=" in problem


def test_letter_case_does_not_count() -> None:
    p = pipeline()
    numbers(p, "Flights")
    p.materialized_view("sql", "SELECT * FROM FLIGHTS")

    @p.materialized_view
    def function(flights): ...

    graph = p.graph()
    assert set(graph.flows["sql"].inputs.values()) == {Identifier(None, "s", "flights")}
    assert set(graph.flows["function"].inputs.values()) == {Identifier(None, "s", "flights")}


def test_an_unknown_parameter_is_an_error_with_a_suggestion() -> None:
    p = pipeline()
    numbers(p, "flights")

    @p.materialized_view
    def delayed(flihgts): ...

    with pytest.raises(dp.UnknownDatasetError, match="did you mean 'flights'") as caught:
        p.graph()
    assert "delayed" in str(caught.value)
    assert f"{__file__}:" in str(caught.value)


def test_a_binding_to_an_unknown_dataset_is_an_error_with_a_suggestion() -> None:
    p = pipeline()
    numbers(p, "flights")

    @p.materialized_view(inputs={"f": "flihgts"})
    def delayed(f): ...

    with pytest.raises(dp.UnknownDatasetError, match="did you mean 'flights'"):
        p.graph()


def test_a_binding_of_no_parameter_is_an_error_with_a_suggestion() -> None:
    p = pipeline()
    numbers(p, "flights")

    @p.materialized_view(inputs={"flihgts": "flights"})
    def delayed(flights): ...

    assert "did you mean 'flights'" in only_problem(p)


def test_spark_is_reserved() -> None:
    p = pipeline()
    numbers(p, "flights")

    @p.materialized_view(inputs={"spark": "flights"})
    def delayed(spark): ...

    assert "spark" in only_problem(p)


def star_args(*flights): ...


def star_kwargs(**flights): ...


def positional(flights, /): ...


@pytest.mark.parametrize("function", [star_args, star_kwargs, positional])
def test_parameters_that_cannot_name_an_input_are_refused(function: Callable[..., None]) -> None:
    p = pipeline()
    numbers(p, "flights")
    p.materialized_view(function)
    assert "flights" in only_problem(p)


def test_a_sql_text_names_its_inputs_short_or_qualified() -> None:
    p = pipeline()
    numbers(p, "a", "other.b")
    p.materialized_view("c", "SELECT * FROM a JOIN s.A JOIN other.b")
    assert {str(i) for i in p.graph().flows["c"].inputs.values()} == {"s.a", "other.b"}


def test_references_stand_where_the_text_names_them() -> None:
    p = pipeline()
    numbers(p, "a", "b")
    sql = "SELECT a.n FROM a JOIN s.b AS x USING (n) JOIN a AS y USING (n)"
    p.materialized_view("c", sql)
    references = p.graph().flows["c"].references
    assert [sql[r.start : r.end] for r in references] == ["a", "s.b", "a"]
    assert [r.needs_alias for r in references] == ["a", None, None]
    swapped = replace_names(sql, [(r.start, r.end, f"<{r.identifier}>") for r in references])
    assert swapped == "SELECT a.n FROM <s.a> JOIN <s.b> AS x USING (n) JOIN <s.a> AS y USING (n)"


def test_a_qualified_table_of_another_pipeline_is_outside() -> None:
    p = pipeline()
    p.materialized_view("c", "SELECT * FROM theirs.t JOIN delta.`/x`")
    flow = p.graph().flows["c"]
    assert flow.outside == ("theirs.t", "delta./x")
    assert dict(flow.inputs) == {}


def test_an_unknown_short_name_is_an_error_with_a_suggestion() -> None:
    p = pipeline()
    numbers(p, "flights")
    p.view("late", "SELECT * FROM flihgts")
    with pytest.raises(dp.UnknownDatasetError, match="did you mean 'flights'"):
        p.graph()


def test_bindings_apply_to_sql_texts() -> None:
    p = pipeline()
    numbers(p, "flights")
    p.materialized_view("c", "SELECT * FROM F", inputs={"f": "flights"})
    assert {str(i) for i in p.graph().flows["c"].inputs.values()} == {"s.flights"}


@pytest.mark.parametrize("clause", ["VERSION AS OF 3", "TIMESTAMP AS OF '2026-01-01'"])
def test_a_dataset_is_not_read_at_a_version_of_the_texts_own(clause: str) -> None:
    p = pipeline()
    numbers(p, "flights")
    p.materialized_view("c", f"SELECT * FROM flights {clause}")
    assert "AS OF" in only_problem(p)


def test_tables_of_others_may_be_read_at_a_version() -> None:
    p = pipeline()
    p.materialized_view("c", "SELECT * FROM theirs.t VERSION AS OF 3")
    assert p.graph().flows["c"].outside == ("theirs.t",)


def test_a_sample_needs_an_alias() -> None:
    p = pipeline()
    numbers(p, "flights")
    p.materialized_view("c", "SELECT * FROM flights TABLESAMPLE (10 PERCENT) AS f")
    assert list(p.graph().flows["c"].inputs) == ["flights"]
    p.materialized_view("d", "SELECT * FROM flights TABLESAMPLE (10 PERCENT)")
    assert "TABLESAMPLE (...) AS flights" in only_problem(p)


def test_a_binding_that_the_text_never_names_is_refused() -> None:
    p = pipeline()
    numbers(p, "flights")
    p.materialized_view("c", "SELECT * FROM flights", inputs={"g": "flights"})
    assert "'g'" in only_problem(p)


WINDOWS = "SELECT window.end, count(*) AS n FROM flights GROUP BY window(ts, '1 hour')"


def test_a_text_that_only_spark_understands_needs_its_inputs_and_the_error_says_which() -> None:
    p = pipeline()
    numbers(p, "flights")
    numbers(p, "other.airports")
    p.view("hours", WINDOWS)
    text = only_problem(p)
    assert text.startswith("the SQL text does not parse (sqlglot): line 1, column 65, at ','")
    assert text.endswith("inputs={'flights': 'flights'}.")


def test_inputs_are_enough_for_a_text_that_only_spark_understands() -> None:
    p = pipeline()
    numbers(p, "flights")
    numbers(p, "other.airports")
    p.view("hours", WINDOWS, inputs={"flights": "flights"})
    p.materialized_view("rest", "FROM a |> SET n = 2", inputs={"a": dp.Batch("other.airports")})
    p.materialized_view("hidden", "FROM f(x => TABLE(a))", inputs={"a": "flights"})
    p.materialized_view("nothing", "SELECT parse_json('{}'):a.b::int AS n", inputs={})
    p.materialized_view("found", "SELECT * FROM flights JOIN a", inputs={"a": "other.airports"})
    flows = p.graph().flows
    read = {flow.name: {n: str(i) for n, i in flow.inputs.items()} for flow in flows}
    assert read["hours"] == {"flights": "s.flights"}
    assert read["rest"] == {"a": "other.airports"}
    assert read["hidden"] == {"a": "s.flights"}
    assert read["nothing"] == {}
    assert read["found"] == {"flights": "s.flights", "a": "other.airports"}
    assert [f.name for f in flows if f.by_name] == ["hours", "rest", "hidden", "nothing"]


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"s.flights": "flights"}, r"inputs={'flights': 'flights'}"),
        ({"flights": "flihgts"}, "did you mean 'flights'"),
        ({"a": "flights", "A": "flights"}, "more than once"),
    ],
)
def test_inputs_of_such_a_text_are_names_without_a_schema_of_datasets(
    inputs: dict[str, str], why: str
) -> None:
    p = pipeline()
    numbers(p, "flights")
    p.view("hours", WINDOWS, inputs=inputs)
    with pytest.raises(dp.DeclarationError, match=why):
        p.graph()


@pytest.mark.parametrize("sql", ["SELECT * FROM", "DROP TABLE t", "SELECT 1; SELECT 2", ""])
def test_a_text_that_is_not_a_select_is_refused(sql: str) -> None:
    p = pipeline()
    p.materialized_view("c", sql)
    assert only_problem(p)


def test_find_takes_declared_and_qualified_names_in_any_letter_case() -> None:
    p = pipeline()
    numbers(p, "Flights")
    p.view("late", "SELECT * FROM flights")
    graph = p.graph()
    for name in ("Flights", "flights", "s.flights", "S.FLIGHTS"):
        assert graph.find(name).name == "Flights"
    assert graph.find("s.late").kind == "view"


def test_find_suggests_and_does_not_take_temporary_views_and_sources() -> None:
    p = pipeline()
    p.source("landing.raw")
    p.temporary_view("scratch", "SELECT * FROM landing.raw")
    p.materialized_view("flights", "SELECT * FROM scratch")
    graph = p.graph()
    with pytest.raises(dp.UnknownDatasetError, match="did you mean 'flights'"):
        graph.find("flihgts")
    for name in ("scratch", "landing.raw"):
        with pytest.raises(dp.UnknownDatasetError):
            graph.find(name)


def test_a_graph_finds_its_datasets_by_identifier() -> None:
    p = pipeline()
    numbers(p, "t")
    graph = p.graph()
    identifier = Identifier(None, "s", "t")
    assert graph[identifier].name == "t"
    assert identifier in graph
    assert Identifier(None, "s", "u") not in graph
    assert graph.flow(identifier).identifier == identifier


def test_a_parameter_with_a_default_that_names_no_dataset_is_the_users_own_value() -> None:
    made = dp.Pipeline("p", schema="s")
    made.materialized_view("limits", "SELECT 1 AS n")
    for number in range(2):

        @made.materialized_view(f"t{number}")
        def table(spark, number=number, limits=None):
            return spark.range(number)

    assert dict(made.graph().flows["t1"].inputs) == {
        "limits": made.graph().tables["limits"].identifier
    }


def test_a_bound_parameter_is_an_input_whatever_its_default() -> None:
    made = dp.Pipeline("p", schema="s")

    @made.materialized_view(inputs={"rows": "nowhere"})
    def table(rows=None):
        return rows

    with pytest.raises(UnknownDatasetError):
        made.graph()


def test_sql_with_the_bare_name_of_a_source_in_another_schema_gets_the_whole_name() -> None:
    p = pipeline()
    p.source("landing.src")
    p.materialized_view("t", "SELECT * FROM src")
    with pytest.raises(dp.UnknownDatasetError, match=r"in SQL write landing\.src\. \["):
        p.graph()
