"""The analysed plan is compared with the declaration, on invented relations."""

import pytest
from pyspark.errors import AnalysisException

import delta_pipelines as dp
from delta_pipelines.delta.query.relations import Relation
from delta_pipelines.graph.graph import Flow
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.query.declared_inputs import (
    InputVersion,
    advice,
    check_inputs_read,
    outside_inputs,
    refusing_unwritten_datasets,
)

FLIGHTS = Identifier(None, "s", "flights")
AIRPORTS = Identifier(None, "s", "airports")
LOCATIONS = {"file:/w/s/flights": FLIGHTS, "file:/w/s/airports": AIRPORTS}
NAMES = {"s.flights": FLIGHTS, "s.airports": AIRPORTS, "s.late": Identifier(None, "s", "late")}
MARKERS = {"0": FLIGHTS, "1": AIRPORTS}
BOTH = [Relation("declared", "0"), Relation("declared", "1")]


def flow(*parameters: str) -> Flow:
    p = dp.Pipeline("p", schema="s")
    for name in ("flights", "airports"):
        p.materialized_view(name, "SELECT 1 AS n")
    p.materialized_view("delays", f"SELECT * FROM {', '.join(parameters or ('flights',))}")
    return p.graph().flows["delays"]


def check(reading: Flow, *relations: Relation) -> None:
    check_inputs_read(reading, relations, MARKERS, LOCATIONS, NAMES)


def refusals(reading: Flow, *relations: Relation) -> list[str]:
    with pytest.raises(dp.UndeclaredInputError) as caught:
        check(reading, *relations)
    for problem in caught.value.problems:
        assert problem.dataset == "delays"
        assert problem.location == reading.declaration.location
    return [problem.message for problem in caught.value.problems]


def test_reading_exactly_what_is_declared_is_fine() -> None:
    check(flow("flights", "airports"), *BOTH)
    check(flow("flights"), Relation("declared", "0"), Relation("declared", "0"))


@pytest.mark.parametrize(
    "relation",
    [
        Relation("delta", None, "file:/w/s/airports", 3, "id"),
        Relation("delta", "elsewhere.name", "file:/w/s/airports", 3, "id"),
        Relation("delta", "s.airports", "file:/moved", 3, "id"),
        Relation("delta", "spark_catalog.s.airports"),
        Relation("delta", "`spark_catalog`.`s`.`Airports`"),
        Relation("delta", "S.AIRPORTS"),
        Relation("files", None, "file:/w/s/airports"),
        Relation("view", "s.late"),
    ],
)
def test_a_dataset_read_behind_the_declarations_back_is_refused(relation: Relation) -> None:
    (problem,) = refusals(flow("flights"), Relation("declared", "0"), relation)
    assert "without declaring it" in problem
    assert "s.airports" in problem or "s.late" in problem


def test_a_declared_dataset_read_behind_the_declarations_back_is_refused_too() -> None:
    (problem,) = refusals(
        flow("flights"), Relation("declared", "0"), Relation("delta", "s.flights", version=1)
    )
    assert "s.flights" in problem


def test_a_dataset_that_reads_itself_is_not_advised_to_be_its_own_input() -> None:
    reading = flow("flights")
    relations = [Relation("declared", "0"), Relation("delta", "s.delays", version=1)]
    with pytest.raises(dp.UndeclaredInputError) as caught:
        check_inputs_read(
            reading, relations, MARKERS, LOCATIONS, {**NAMES, "s.delays": reading.target}
        )
    (problem,) = caught.value.problems
    assert "its own target" in problem.message
    assert "parameter" not in problem.message


def test_a_dataset_that_is_read_twice_is_reported_once() -> None:
    again = Relation("delta", None, "file:/w/s/airports")
    problems = refusals(
        flow("flights"), Relation("declared", "0"), Relation("delta", "s.airports"), again
    )
    assert len(problems) == 1


def test_a_declared_input_that_is_never_read_is_refused() -> None:
    (problems,) = refusals(flow("flights", "airports"), Relation("declared", "0"))
    assert "'airports' (s.airports) is never read" in problems


def test_all_faulty_inputs_are_reported_at_once() -> None:
    problems = refusals(
        flow("flights"), Relation("delta", "s.airports"), Relation("view", "s.late")
    )
    assert len(problems) == 3


def test_rows_of_unknown_origin_may_come_from_any_declared_input() -> None:
    check(flow("flights", "airports"), Relation("declared", "0"), Relation("opaque"))


def test_rows_of_unknown_origin_excuse_no_undeclared_read() -> None:
    assert refusals(flow("flights"), Relation("opaque"), Relation("delta", "s.airports"))


def test_tables_of_others_may_be_read() -> None:
    check(
        flow("flights"),
        Relation("declared", "0"),
        Relation("delta", "theirs.airports", "file:/theirs", 7, "id"),
        Relation("files", None, "file:/data"),
        Relation("local"),
        Relation("table", "jdbc"),
    )


def test_an_outside_input_is_listed_once_with_its_version() -> None:
    table = Relation("delta", "theirs.t", "file:/theirs", 7, "id")
    path = Relation("delta", None, "file:/by/path", 2, "id2")
    files = Relation("files", None, "file:/data")
    other = Relation("table", "hive.t")
    unseen = [Relation("declared", "0"), Relation("local"), Relation("opaque"), Relation("view")]
    assert outside_inputs([table, *unseen, path, table, files, other]) == (
        InputVersion("theirs.t", "theirs.t", "outside", 7, "id"),
        InputVersion("file:/by/path", "file:/by/path", "outside", 2, "id2"),
        InputVersion("file:/data", "file:/data", "files"),
        InputVersion("hive.t", "hive.t", "outside"),
    )


def test_the_plan_suggests_source_for_delta_tables_that_are_not_declared() -> None:
    (note,) = advice(
        [
            InputVersion("theirs.t", "theirs.t", "outside", 7, "id"),
            InputVersion("hive.t", "hive.t", "outside"),
            InputVersion("f", "file:/data", "files"),
            InputVersion("flights", "s.flights", "pinned", 3, "id"),
        ]
    )
    assert "source('theirs.t')" in note


class AnalysisFailure(AnalysisException):
    """An error of Spark's analyser, without a JVM to ask."""

    def __init__(self, condition: str | None, **parameters: str) -> None:
        super().__init__("it failed")
        self._condition_and_parameters = condition, parameters

    def getCondition(self) -> str | None:  # noqa: N802 - PySpark's
        return self._condition_and_parameters[0]

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802 - PySpark's
        return self._condition_and_parameters[1]


def not_found(relation: str, condition: str = "TABLE_OR_VIEW_NOT_FOUND") -> AnalysisException:
    return AnalysisFailure(condition, relationName=relation)


@pytest.mark.parametrize(
    "relation", ["`s`.`flights`", "`spark_catalog`.`S`.`Flights`", "`flights`", "s.flights"]
)
def test_a_dataset_that_is_not_there_yet_is_refused_as_one_that_is(relation: str) -> None:
    p = dp.Pipeline("p", schema="s")
    for name in ("flights", "delays"):
        p.materialized_view(name, "SELECT 1 AS n")
    graph = p.graph()
    with (
        pytest.raises(dp.UndeclaredInputError, match=r"reads s\.flights, .* without declaring"),
        refusing_unwritten_datasets(graph, graph.flows["delays"]),
    ):
        raise not_found(relation)


@pytest.mark.parametrize(
    "error",
    [
        not_found("`other`.`flights`"),
        not_found("`cat`.`s`.`flights`"),
        not_found("`s`.`flights`", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        AnalysisFailure("TABLE_OR_VIEW_NOT_FOUND"),
        AnalysisException("it has no condition"),
    ],
)
def test_a_missing_table_stays_the_error_of_spark(
    error: AnalysisException,
) -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("flights", "SELECT 1 AS n")
    graph = p.graph()
    with (
        pytest.raises(AnalysisException) as caught,
        refusing_unwritten_datasets(graph, graph.flows["flights"]),
    ):
        raise error
    assert caught.value is error
