"""Expectations as they are declared: where they may stand, what they may say, what they change."""

import functools

import pytest

import delta_pipelines as dp
from delta_pipelines.model.expectation_result import ExpectationResult, added, commit_counts
from delta_pipelines.user_code.definition_hash import definition_hash


def pipeline() -> dp.Pipeline:
    return dp.Pipeline("p", schema="s")


def declared(p: dp.Pipeline, name: str = "t") -> list[tuple[str, str, str]]:
    (declaration,) = (d for d in p.declarations if d.name == name)
    return [(e.name, e.condition, e.action) for e in declaration.expectations]


def refused(p: dp.Pipeline) -> str:
    with pytest.raises(dp.DeclarationError) as error:
        p.graph()
    return str(error.value)


def test_expectations_keep_the_order_of_the_text_above_and_below_the_dataset() -> None:
    p = pipeline()

    @p.expect("a", "n > 0")
    @p.materialized_view
    @p.expect_or_drop("b", "n > 1")
    @p.expect_or_fail("c", "n > 2")
    def t(spark):
        return spark.range(1)

    assert declared(p) == [("a", "n > 0", "warn"), ("b", "n > 1", "drop"), ("c", "n > 2", "fail")]
    assert p.graph().tables["t"].declaration.expectations == p.declarations[0].expectations


def test_the_function_stays_what_it_was() -> None:
    p = pipeline()

    def function(spark):
        return spark

    assert p.expect("a", "true")(function) is function
    assert p.streaming_table(function) is function


def test_every_kind_of_written_dataset_takes_them() -> None:
    p = pipeline()
    p.source("landing.rows")

    @p.streaming_table
    @p.expect("a", "n > 0")
    def t(rows): ...

    @p.append_flow(target="t")
    @p.expect("b", "n > 0")
    def more(rows): ...

    @p.upsert(keys=["n"])
    @p.expect("c", "n > 0")
    def merged(spark): ...

    assert [declared(p, name)[0][0] for name in ("t", "more", "merged")] == ["a", "b", "c"]
    p.graph()


def test_a_temporary_view_has_no_expectations() -> None:
    p = pipeline()

    @p.temporary_view
    @p.expect("a", "n > 0")
    def v(spark): ...

    assert "a temporary view cannot have expectations" in refused(p)


def test_an_expectation_without_a_dataset_is_reported_with_its_location() -> None:
    p = pipeline()

    @p.expect("lonely", "n > 0")
    def t(spark): ...

    message = refused(p)
    assert "'lonely' decorates a function that is not a dataset" in message
    assert "test_expectations.py" in message


def test_an_expectation_that_decorates_nothing_is_reported_with_its_location() -> None:
    p = pipeline()
    p.materialized_view("t", "SELECT 1 AS n")
    p.expect("forgotten", "n > 0")
    message = refused(p)
    assert "'forgotten' does not decorate a function" in message
    assert "test_expectations.py" in message


def test_an_expectation_kept_under_a_name_is_for_several_datasets() -> None:
    p = pipeline()
    positive = p.expect("positive", "n > 0")

    @p.materialized_view
    @positive
    def one(spark): ...

    @p.materialized_view
    @positive
    def two(spark): ...

    assert p.graph()
    assert declared(p, "one") == declared(p, "two") == [("positive", "n > 0", "warn")]


def test_a_wrapper_between_dataset_and_expectation_is_reported() -> None:
    p = pipeline()

    def wrapping(function):
        return functools.wraps(function)(lambda spark: function(spark))

    @p.materialized_view
    @wrapping
    @p.expect("hidden", "n > 0")
    def t(spark): ...

    assert "No decorator that wraps the function may be between" in refused(p)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("n %", "is not a SQL expression"),
        ("", "is not a SQL expression"),
        ("n > 1; SELECT 1", "is not a SQL expression"),
        ("n > 1 AS m", "is not a SQL expression"),
        ("n IN (SELECT id FROM other)", "subquery"),
        ("EXISTS (SELECT 1 FROM other)", "subquery"),
        ("n > (SELECT max(id) FROM other)", "subquery"),
        ("count(*) > 1", "cannot have an aggregate, a window"),
        ("row_number() OVER (PARTITION BY n ORDER BY n) = 1", "cannot have an aggregate, a window"),
        ("explode(array(n)) > 1", "or a generator"),
    ],
)
def test_a_condition_is_about_one_row(condition: str, why: str) -> None:
    p = pipeline()
    p.materialized_view(p.expect("odd", condition)(lambda_named("t")))
    message = refused(p)
    assert "'odd'" in message
    assert why in message


@pytest.mark.parametrize("condition", ["a.b.c IS NOT NULL", "`odd name` RLIKE '^x'", "true"])
def test_ordinary_conditions_are_accepted(condition: str) -> None:
    p = pipeline()
    p.materialized_view(p.expect("fine", condition)(lambda_named("t")))
    p.graph()


def lambda_named(name: str):
    def function(spark): ...

    function.__name__ = name
    return function


def test_names_are_unique_and_not_empty() -> None:
    p = pipeline()

    @p.materialized_view
    @p.expect("twice", "n > 0")
    @p.expect("twice", "n > 1")
    @p.expect(" ", "n > 2")
    def t(spark): ...

    message = refused(p)
    assert "'twice' is declared more than once" in message
    assert "an empty name" in message


@pytest.mark.parametrize("arguments", [(None, "n > 0"), ("a", None), (1, "n > 0"), ("a", True)])
def test_name_and_condition_are_strings(arguments: tuple[object, object]) -> None:
    with pytest.raises(dp.DeclarationError, match=r"string"):
        pipeline().expect(*arguments)  # type: ignore[arg-type]


def test_a_dataset_of_sql_text_says_it_in_its_where() -> None:
    p = pipeline()
    with pytest.raises(dp.DeclarationError, match="WHERE"):
        p.expect("a", "n > 0")(p.materialized_view("t", "SELECT 1 AS n"))  # type: ignore[type-var]


def test_a_character_that_nothing_can_keep_is_refused() -> None:
    p = pipeline()
    p.materialized_view(p.expect("a\0", "n > 0")(lambda_named("t")))
    assert "contains a character that no catalog" in refused(p)


@pytest.mark.parametrize(
    "change", [("b", "n > 0", "warn"), ("a", "n > 1", "warn"), ("a", "n > 0", "drop")]
)
def test_a_changed_expectation_is_a_changed_definition(change: tuple[str, str, str]) -> None:
    doors = {"warn": "expect", "drop": "expect_or_drop"}

    def function(spark): ...

    def hashed(name: str, condition: str, action: str) -> str:
        p = pipeline()
        p.materialized_view(getattr(p, doors[action])(name, condition)(function))
        return definition_hash(p.declarations[0])

    assert hashed(*change) != hashed("a", "n > 0", "warn")
    assert hashed("a", "n > 0", "warn") == hashed("a", "n > 0", "warn")


def test_counts_of_batches_add_up_by_name() -> None:
    one = ExpectationResult("a", "n > 0", "drop", rows=10, broken=1)
    two = ExpectationResult("a", "n > 0", "drop", rows=5, broken=2)
    other = ExpectationResult("b", "n > 0", "warn", rows=5, broken=0)
    (a, b) = added([one], [two, other])
    assert (a.rows, a.broken, a.passed) == (15, 3, False)
    assert (b.rows, b.broken, b.passed) == (5, 0, True)
    assert commit_counts([a]) == {"expectations": {"a": {"rows": 15, "broken": 3}}}
    assert commit_counts([]) == {}
    assert str(a) == "3 of 15 rows break 'a' (n > 0), and were left out"
    assert str(b) == "0 of 5 rows break 'b' (n > 0)"


@pytest.mark.parametrize(
    "condition",
    ["delete = true", "cache > 3", "comment IS NOT NULL", "merge IS NULL", "n > 0 -- positive"],
)
def test_a_column_may_be_named_like_a_statement(condition: str) -> None:
    p = pipeline()
    p.materialized_view(p.expect("fine", condition)(lambda_named("t")))
    p.graph()


@pytest.mark.parametrize(
    "condition",
    [
        "comment IS NOT NULL AND id IN (SELECT id FROM other)",
        "comment IS NOT NULL AND max(n) > 1",
        "n > 0 FROM other",
        "n > 0, m > 0",
        "n > 0 UNION SELECT 1",
        "*",
    ],
)
def test_a_condition_does_not_hide_behind_a_name(condition: str) -> None:
    p = pipeline()
    p.materialized_view(p.expect("odd", condition)(lambda_named("t")))
    assert "expectation 'odd'" in refused(p)


def test_flows_of_a_table_mean_the_same_by_a_name() -> None:
    def declared_with(condition: str) -> dp.Pipeline:
        p = pipeline()
        p.source("landing.rows")

        @p.streaming_table
        @p.expect("positive", "n > 0")
        def t(rows): ...

        @p.append_flow(target="t")
        @p.expect("positive", condition)
        def more(rows): ...

        return p

    declared_with("n > 0").graph()
    assert "differs from the one in another flow of s.t" in refused(declared_with("m > 0"))
