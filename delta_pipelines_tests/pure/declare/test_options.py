"""Python types of options, checked where they are given."""

import functools
import inspect
from pathlib import Path
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines.declare.argument_checks import check_text, check_text_map, check_texts
from delta_pipelines.declare.options import check_inputs, checked_declaration


def refused(check: Any, *arguments: object, **options: object) -> str:
    with pytest.raises(dp.DeclarationError) as caught:
        check(*arguments, **options)
    return str(caught.value)


def test_right_types_come_back_as_values() -> None:
    assert check_text("x", "comment") == "x"
    assert check_texts(["a", "b"], "owners") == ("a", "b")
    assert check_texts(("a",), "owners") == ("a",)
    assert check_text_map({"a": "1"}, "tags") == {"a": "1"}
    assert check_inputs({"a": "x", "b": dp.Batch("y")}) == {"a": "x", "b": dp.Batch("y")}


def test_an_option_that_is_none_has_its_default() -> None:
    assert check_text(None, "comment") is None
    assert check_texts(None, "owners") == ()
    assert check_text_map(None, "tags") == {}
    assert check_inputs(None) == {}


@pytest.mark.parametrize("value", [1, b"x", ["x"], True, {}])
def test_a_text_that_is_none_is_refused_with_what_it_is(value: object) -> None:
    message = refused(check_text, value, "comment")
    assert "comment must be a string" in message
    assert repr(value) in message


@pytest.mark.parametrize("value", ["abc", 1, {"a": "b"}, {"a"}])
def test_a_list_that_is_none_is_refused_a_single_string_too(value: object) -> None:
    assert "partition_cols must be a list of strings" in refused(
        check_texts, value, "partition_cols"
    )


def test_a_list_of_something_else_is_refused() -> None:
    assert "int 3" in refused(check_texts, ["a", 3], "keys")


@pytest.mark.parametrize(
    ("given", "write"),
    [
        ({"pipelines.reset.allowed": False}, "'pipelines.reset.allowed': 'false'"),
        ({"delta.logRetentionDuration": 7}, "'delta.logRetentionDuration': '7'"),
        ({1: "a"}, "'1': 'a'"),
    ],
)
def test_property_values_of_a_wrong_type_are_refused_with_what_to_write(
    given: object, write: str
) -> None:
    assert f"write {write}" in refused(check_text_map, given, "table_properties")


@pytest.mark.parametrize("given", ["a=b", ["a"], 3])
def test_a_mapping_that_is_none_is_refused(given: object) -> None:
    assert "must be a mapping" in refused(check_text_map, given, "tags")
    assert "inputs must map" in refused(check_inputs, given)


@pytest.mark.parametrize("bound", [3, None, ["x"], len])
def test_inputs_bind_names_to_datasets_only(bound: object) -> None:
    assert "'f'" in refused(check_inputs, {"f": bound})


@pytest.mark.parametrize("skips", ["false", 0, None])
def test_whether_a_stream_skips_changes_is_true_or_false(skips: Any) -> None:
    message = refused(check_inputs, {"new": dp.Stream("orders", skip_change_commits=skips)})
    assert "skip_change_commits of Stream('orders') must be True or False" in message
    assert repr(skips) in message
    for right in (True, False):
        assert check_inputs({"new": dp.Stream("orders", skip_change_commits=right)})


@pytest.mark.parametrize("kind", [dp.Batch, dp.Stream, dp.Changes])
def test_an_input_of_every_kind_names_its_dataset_by_a_text(kind: Any) -> None:
    assert "the name of a dataset as a string" in refused(check_inputs, {"new": kind(len)})


def pipeline() -> dp.Pipeline:
    return dp.Pipeline("p", schema="s")


WRONG = [
    ("comment", 1),
    ("schema", 1),
    ("group", 1),
    ("partition_cols", "a"),
    ("cluster_by", "a"),
    ("owners", "ann@example.com"),
    ("table_properties", {"a": True}),
    ("tags", {"a": 1}),
    ("spark_conf", {"a": 1}),
    ("inputs", {"a": 1}),
    ("schema_drift", "ignore"),
    ("schema_drift", ["fail"]),
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_every_option_is_checked_and_reported_with_its_location(option: str, value: object) -> None:
    p = pipeline()

    with pytest.raises(dp.DeclarationError, match=option) as caught:

        @p.materialized_view(**{option: value})
        def t(spark): ...

    (problem,) = caught.value.problems
    assert problem.dataset == "t"
    assert problem.location is not None
    assert problem.location.file == __file__
    assert p.declarations == ()


def test_a_schema_drift_policy_is_one_of_three_and_evolve_by_default() -> None:
    p = pipeline()
    p.materialized_view("a", "SELECT 1 AS n")
    p.upsert("b", "SELECT 1 AS n", keys=["n"], schema_drift="add_columns")
    assert [d.schema_drift for d in p.declarations] == ["evolve", "add_columns"]
    with pytest.raises(dp.DeclarationError, match="'evolve', 'add_columns', 'fail'"):
        p.materialized_view("c", "SELECT 1 AS n", schema_drift="Fail")
    with pytest.raises(dp.DeclarationError, match="no option 'schema_drift'"):
        p.view("d", "SELECT 1 AS n", schema_drift="fail")


def test_keys_are_checked_and_reported_with_their_location() -> None:
    with pytest.raises(dp.DeclarationError, match=r"keys must be a list") as caught:
        pipeline().upsert("t", "SELECT 1", keys="icao")
    assert f"{__file__}:" in str(caught.value)
    assert "t: " in str(caught.value)


@pytest.mark.parametrize("option", ["sequence_by", "deletes_when"])
def test_expressions_of_an_upsert_are_texts(option: str) -> None:
    with pytest.raises(dp.DeclarationError, match=f"{option} must be a string"):
        pipeline().upsert("t", "SELECT 1", keys=["k"], **{option: 1})


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("materialized_view", "partition_columns"),
        ("materialized_view", "keys"),
        ("view", "partition_cols"),
        ("view", "cluster_by"),
        ("temporary_view", "spark_conf"),
        ("temporary_view", "comment"),
        ("temporary_view", "table_properties"),
    ],
)
def test_an_option_that_a_kind_does_not_have_is_refused_with_those_it_has(
    kind: str, option: str
) -> None:
    with pytest.raises(dp.DeclarationError, match=f"{kind} has no option {option!r}") as caught:
        getattr(pipeline(), kind)("t", "SELECT 1", **{option: None})
    assert "inputs" in str(caught.value)
    assert f"{__file__}:" in str(caught.value)


def test_the_error_for_a_source_lists_the_options_that_it_takes() -> None:
    with pytest.raises(dp.DeclarationError) as caught:
        checked_declaration("source", "t", None, {"nonsense": None}, None, None)
    taken = sorted(set(inspect.signature(dp.Pipeline.source).parameters) - {"self", "name"})
    assert f"it has {', '.join(taken)}." in str(caught.value)


def test_a_table_without_a_query_is_offered_no_option_of_queries() -> None:
    with pytest.raises(dp.DeclarationError, match="no option 'keys'") as caught:
        pipeline().create_streaming_table("t", keys=["k"])
    assert "comment" in str(caught.value)
    assert "inputs" not in str(caught.value)
    assert "spark_conf" not in str(caught.value)
    for option in ("inputs", "spark_conf"):
        with pytest.raises(dp.DeclarationError, match=f"give {option} to its append_flow"):
            pipeline().create_streaming_table("t", **{option: {}})


def declare_all(p: dp.Pipeline, deterministic: Any) -> None:
    """Declare a dataset of every kind that may run Python on its rows."""
    given = {"deterministic": deterministic}
    p.materialized_view("m", "SELECT 1 AS n", **given)
    p.materialized_view("m_of_a_function", **given)(lambda m: m)
    p.upsert("u", "SELECT * FROM m", keys=["n"], **given)
    p.temporary_view("w", "SELECT * FROM m", **given)
    p.view("v", "SELECT * FROM m", **given)
    p.streaming_table("s", **given)(lambda m: m)
    p.create_streaming_table("t")
    p.append_flow(target="t", name="f", **given)(lambda m: m)


@pytest.mark.parametrize("value", [True, False, None])
def test_every_kind_may_be_declared_deterministic(value: bool | None) -> None:
    pipeline = dp.Pipeline("p", schema="s")
    declare_all(pipeline, value)
    said = {d.name: d.deterministic for d in pipeline.declarations}
    assert said.pop("t") is False
    assert set(said.values()) == {value is True}
    assert len(said) == 7


@pytest.mark.parametrize("value", [1, 0, "true", "False", [], {}])
def test_deterministic_is_true_or_false(value: object) -> None:
    message = refused(declare_all, dp.Pipeline("p", schema="s"), value)
    assert f"deterministic must be True or False, not {type(value).__name__} {value!r}" in message


def test_a_dataset_without_a_query_is_not_declared_deterministic() -> None:
    p = dp.Pipeline("p", schema="s")
    message = refused(lambda: p.create_streaming_table("t", deterministic=True))
    assert "has no query of its own; give deterministic to its append_flow" in message


@pytest.mark.parametrize(
    "columns", ["id INT, name STRING", "id BIGINT", "`my id` string", "a: struct<b: int>", "d DATE"]
)
def test_columns_as_a_schema_are_distinguished_from_the_namespace(columns: str) -> None:
    from pyspark.sql.types import StructType

    p = dp.Pipeline("p", schema="s")
    for given in (columns, StructType(), ["id"]):
        with pytest.raises(dp.DeclarationError, match="schema is the name of the namespace") as one:
            p.materialized_view("t", "SELECT 1 AS id", schema=given)
        with pytest.raises(dp.DeclarationError, match="columns of a table by columns=") as two:
            dp.Pipeline("p", schema=given)
        assert "t: schema" in str(one.value)
        assert "(database)" in str(two.value)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("partitioned_by", "did you mean 'partition_cols'?"),
        ("column", "did you mean 'columns'?"),
        ("constraint", "did you mean 'constraints'?"),
        ("nonsense", "it has cluster_by, column_comments, columns, comment"),
    ],
)
def test_an_unknown_option_is_reported_with_the_nearest_one(option: str, hint: str) -> None:
    p = dp.Pipeline("p", schema="s")
    with pytest.raises(dp.DeclarationError) as caught:
        p.materialized_view("t", "SELECT 1 AS id", **{option: ["a"]})
    assert hint in str(caught.value)


def test_only_tables_have_declared_columns() -> None:
    p = dp.Pipeline("p", schema="s")
    for declare in (p.view, p.temporary_view):
        with pytest.raises(dp.DeclarationError, match="its columns come from its query"):
            declare("t", "SELECT 1 AS id", columns="id INT")


@pytest.mark.parametrize("value", ["", "  ", ["id INT"], {"id": "INT"}, 1, "StructType()"])
def test_columns_are_text_or_a_type(value: Any) -> None:
    from pyspark.sql.types import StructType

    value = StructType() if value == "StructType()" else value
    p = dp.Pipeline("p", schema="s")
    message = refused(p.materialized_view, "t", "SELECT 1 AS id", columns=value)
    assert "t: columns must be DDL text such as" in message
    assert f"{__file__}:" in message


def test_columns_take_no_settings() -> None:
    p = dp.Pipeline("p", schema="s")
    text = "id INT COMMENT '${spark.hadoop.password}'"
    message = refused(p.materialized_view, "t", "SELECT 1 AS id", columns=text)
    assert "which Spark replaces by a setting" in message


@pytest.mark.parametrize(
    ("constraints", "part"),
    [
        (["n > 0"], "constraints must be a mapping of strings"),
        ({"a": 1}, "constraints must map strings to strings"),
        ({"not a name": "n > 0"}, "'not a name' is not a name of a constraint"),
        ({"a": "n > 0", "A": "n > 1"}, "constraints names 'a' more than once"),
    ],
)
def test_constraints_have_names_and_conditions(constraints: Any, part: str) -> None:
    p = dp.Pipeline("p", schema="s")
    assert part in refused(p.materialized_view, "t", "SELECT 1 AS n", constraints=constraints)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"constraints": {"a": "n >"}}, "constraint 'a': 'n >' is not a SQL expression"),
        ({"constraints": {"a": "sum(n) > 0"}}, "constraint 'a': it is evaluated for each row"),
        ({"constraints": {"a": "n > '\0'"}}, "constraint \"n > '\\x00'\" contains"),
        ({"columns": "n INT COMMENT '\0'"}, "no catalog or file can store"),
        ({"column_comments": {"n": "\0"}}, "no catalog or file can store"),
        (
            {"constraints": {"A": "n > 0"}, "table_properties": {"delta.constraints.a": "n > 1"}},
            "constraint 'a' is in constraints and in table_properties",
        ),
    ],
)
def test_constraints_and_texts_are_checked_without_a_jvm(
    options: dict[str, Any], part: str
) -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("t", "SELECT 1 AS n", **options)
    with pytest.raises(dp.DeclarationError) as caught:
        p.graph()
    assert part in str(caught.value)


async def coroutine(spark): ...


def generator(spark):
    yield spark


async def async_generator(spark):
    yield spark


@pytest.mark.parametrize(
    ("function", "why"),
    [(coroutine, "async"), (async_generator, "async"), (generator, "`return`")],
)
def test_a_function_that_gives_no_frame_when_it_is_called_is_refused(
    function: object, why: str
) -> None:
    p = dp.Pipeline("p", schema="s")
    for declare in (
        lambda: p.materialized_view(function),
        lambda: p.temporary_view("v")(function),
        lambda: p.append_flow(target="t", name="f")(function),
    ):
        with pytest.raises(dp.DeclarationError, match=why):
            declare()


class Queries:
    """Functions of a class."""

    def of_an_object(self, orders): ...

    @staticmethod
    def of_none(spark): ...

    @classmethod
    def of_a_class(cls, spark): ...


def test_functions_of_classes_and_without_a_name() -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view(Queries.of_none)
    p.materialized_view(Queries.of_a_class)
    p.materialized_view("partial")(functools.partial(Queries.of_none))
    assert [t.name for t in p.graph().tables] == ["of_none", "of_a_class", "partial"]
    p.materialized_view(Queries.of_an_object)
    p.materialized_view(lambda spark: spark)
    with pytest.raises(dp.DeclarationError) as caught:
        p.graph()
    message = str(caught.value)
    assert "of_an_object: its function is a method of a class" in message
    assert "a lambda has no name" in message


def test_the_session_under_another_name_is_reported() -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("t")(lambda session: session)
    with pytest.raises(dp.DeclarationError, match="the Spark session is the parameter `spark`"):
        p.graph()


@pytest.mark.parametrize(
    "arguments",
    [
        {"full_refresh_all": "false"},
        {"force": "no"},
        {"force": 1},
        {"strict": "yes"},
        {"raise_on_error": None},
    ],
)
def test_a_flag_is_true_or_false_since_every_text_would_be_true(arguments: dict[str, Any]) -> None:
    p = dp.Pipeline("p", schema="s")
    with pytest.raises(dp.DeclarationError, match=f"{next(iter(arguments))} must be True or False"):
        p.run(None, **arguments)


@pytest.mark.parametrize("spark", [None, "spark", 3])
def test_a_value_that_is_not_a_session_is_reported(spark: Any) -> None:
    p = dp.Pipeline("p", schema="s")
    for call in (p.plan, p.run, p.maintain):
        with pytest.raises(dp.DeclarationError, match="spark must be a SparkSession"):
            call(spark)


def test_a_declaration_as_other_engines_have_it_says_what_it_is_here() -> None:
    p = dp.Pipeline("p", schema="s")
    for declare, why in (
        (lambda: p.view(coroutine), "a persisted view is SQL text"),
        (lambda: p.view("v"), "temporary_view"),
        (lambda: p.streaming_table("t", "SELECT 1"), "returns a stream"),
        (lambda: p.materialized_view(Path("t"), "SELECT 1"), "name must be a string"),
    ):
        with pytest.raises(dp.DeclarationError, match=why) as caught:
            declare()
        assert "test_options.py" in str(caught.value)
    p.upsert("u", "SELECT 1 AS id", keys=["id"], sequence_by="")
    with pytest.raises(dp.DeclarationError, match="sequence_by: '' is not a SQL expression"):
        p.graph()


def test_a_full_refresh_by_streams_is_staged_unless_declared_in_place() -> None:
    p = dp.Pipeline("p", schema="s")
    p.create_streaming_table("staged")
    p.create_streaming_table("in_place", full_refresh="in_place")
    p.upsert("upsert", "SELECT 1 AS n", keys=["n"], full_refresh="staged")
    assert [d.full_refresh for d in p.declarations] == ["staged", "in_place", "staged"]
    with pytest.raises(dp.DeclarationError, match="one of 'staged', 'in_place', not str 'wipe'"):
        p.create_streaming_table("t", full_refresh="wipe")  # type: ignore[arg-type]
    with pytest.raises(dp.DeclarationError, match="materialized_view has no option 'full_refresh'"):
        p.materialized_view("m", "SELECT 1 AS n", full_refresh="in_place")  # type: ignore[call-overload]
