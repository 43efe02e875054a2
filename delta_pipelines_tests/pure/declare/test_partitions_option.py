"""The option `partitions`: which datasets have it, and the parameter `partition`."""

import pydoc
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines_tests.pure.graph.declaring import numbers, only_problem, pipeline

DAYS = dp.DailyPartitions("day", start="2024-01-01")


def refused(declare: Any, *given: Any, **options: Any) -> str:
    with pytest.raises(dp.DeclarationError) as caught:
        declare(*given, **options)
    return str(caught.value)


@pytest.mark.parametrize("value", [DAYS, dp.StaticPartitions("region", ["eu"]), None])
def test_a_materialized_view_has_partitions_or_not(value: Any) -> None:
    p = pipeline()
    p.materialized_view("text", "SELECT 1 AS day", partitions=value)
    p.materialized_view(partitions=value)(function)
    for table in p.graph().tables:
        assert table.declaration.partitions == value
        assert table.has_partitions is table.keeps_rows is (value is not None)


def function(spark): ...


@pytest.mark.parametrize(
    "value", ["day", ["day"], {"day": "2024-01-01"}, 3, False, "", dp.DailyPartitions]
)
def test_partitions_of_another_type_are_refused_with_what_to_write(value: object) -> None:
    message = refused(pipeline().materialized_view, "t", "SELECT 1 AS day", partitions=value)
    assert message.startswith(
        't: partitions must be dp.DailyPartitions("day", start="2024-01-01") or another kind of '
        f"partitions, not {type(value).__name__} {value!r}; partition_cols=[...] only divides"
    )
    assert f"[{__file__}:" in message


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("streaming_table", {}),
        ("create_streaming_table", {}),
        ("append_flow", {"target": "s"}),
        ("upsert", {"keys": ["n"]}),
        ("view", {"sql": "SELECT 1 AS n"}),
        ("temporary_view", {}),
    ],
)
def test_only_a_materialized_view_has_them(kind: str, given: dict[str, Any]) -> None:
    p = pipeline()

    def declare() -> None:
        declared = getattr(p, kind)(name="t", partitions=DAYS, **given)
        if declared is not None:
            declared(function)

    message = refused(declare)
    option = "streaming_table" if kind == "create_streaming_table" else kind
    assert f"t: {option} has no option 'partitions': only a materialized view is refreshed by" in (
        message
    )
    assert "partition_cols=[...] divides the files of a table." in message


def test_a_source_has_none() -> None:
    with pytest.raises(TypeError, match="partitions"):
        pipeline().source("raw.t", partitions=DAYS)  # type: ignore[call-arg]


@pytest.mark.parametrize("option", ["partitioned_by", "partition_by", "partition_columns"])
def test_what_other_engines_call_the_layout_is_not_taken_for_it(option: str) -> None:
    message = refused(pipeline().materialized_view, "t", "SELECT 1", **{option: ["day"]})
    assert "did you mean 'partition_cols'?" in message


def test_help_lists_the_option() -> None:
    shown = pydoc.render_doc(pipeline().materialized_view, renderer=pydoc.plaintext)
    assert "partitions:" in shown
    assert "`DailyPartitions(...)`" in shown
    for other in (pipeline().upsert, pipeline().streaming_table, pipeline().view):
        assert "DailyPartitions" not in pydoc.render_doc(other, renderer=pydoc.plaintext)


def test_a_function_with_partitions_may_take_the_range() -> None:
    p = pipeline()
    numbers(p, "orders")
    p.materialized_view("takes", partitions=DAYS)(lambda orders, partition: orders)
    p.materialized_view("defaults", partitions=DAYS)(lambda orders, partition=None: orders)
    p.materialized_view("reads_all", partitions=DAYS)(lambda orders, spark: orders)
    p.materialized_view("text", "SELECT 1 AS day", partitions=DAYS)
    flows = {flow.name: flow for flow in p.graph().flows}
    assert {name: flow.takes_partition for name, flow in flows.items()} == {
        **{"orders": False, "takes": True, "defaults": True},
        **{"reads_all": False, "text": False},
    }
    assert list(flows["takes"].inputs) == ["orders"]


def test_without_partitions_the_parameter_is_an_input() -> None:
    p = pipeline()
    p.materialized_view("t")(lambda partition: partition)
    assert only_problem(p) == (
        "parameter 'partition' is not a dataset of this pipeline (only a materialized view with "
        "partitions=... has this parameter); the pipeline declares no dataset to read."
    )
    numbers(q := pipeline(), "partition")
    q.materialized_view("t")(lambda partition: partition)
    (flow,) = [flow for flow in q.graph().flows if flow.name == "t"]
    assert list(flow.inputs) == ["partition"]
    assert not flow.takes_partition


@pytest.mark.parametrize("function", [lambda partition: partition, lambda orders: orders])
def test_the_range_cannot_be_an_input(function: Any) -> None:
    p = pipeline()
    numbers(p, "orders")
    p.materialized_view("t", partitions=DAYS, inputs={"partition": "orders"})(function)
    assert only_problem(p) == (
        "`partition` is the range of partitions to compute; it cannot be an input. Bind the input "
        "to another name in inputs={...}."
    )


@pytest.mark.parametrize("name", ["partition", "Partition", "raw.partition"])
def test_a_dataset_of_that_name_is_not_hidden_by_the_range(name: str) -> None:
    p = pipeline()
    numbers(p, name)
    p.materialized_view("reads_all", partitions=DAYS)(lambda spark: spark)
    p.materialized_view("bound", partitions=DAYS, inputs={"parts": name})(
        lambda parts, partition: parts
    )
    p.graph()
    p.materialized_view("t", partitions=DAYS)(lambda partition: partition)
    assert only_problem(p) == (
        "parameter `partition` is the range of partitions to compute, and there is also a dataset "
        "'partition': rename the dataset, or read it by another parameter, such as "
        'inputs={"other": "partition"}.'
    )


def test_the_range_is_passed_by_name() -> None:
    p = pipeline()

    def by_position(partition, /): ...

    p.materialized_view("t", partitions=DAYS)(by_position)
    assert "parameter 'partition' is positional-only" in only_problem(p)
