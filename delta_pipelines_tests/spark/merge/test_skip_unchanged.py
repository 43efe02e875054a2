"""`skip_unchanged`: what would not change is not written, and nothing else is different."""

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import MergeResult, merge_into
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.model.setting_names import AUTO_MERGE
from delta_pipelines_tests.spark.merge.oracle import DV, create, in_order, last_version, read

ON = "t.id = s.id"
DDL = "id int, v int"


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> str:
    return create(spark, tmp_path / "target", DDL, [(1, 1), (2, 2), (3, None)])


def rows(spark: SparkSession, *content: tuple[object, ...], ddl: str = DDL) -> DataFrame:
    return spark.createDataFrame([*content], ddl)


def upsert(
    spark: SparkSession, target: str, source: DataFrame, on: str = ON, executor: str = "auto"
) -> MergeResult:
    builder = merge_into(spark, target, source, on, executor=executor)
    builder = builder.when_matched_update_all(skip_unchanged=True)
    return builder.when_not_matched_insert_all().execute()


def test_unchanged_rows_make_no_commit(spark: SparkSession, target: str):
    result = upsert(spark, target, rows(spark, (1, 1), (3, None)))
    assert result.version is None
    assert set(result.metrics.values()) == {0}
    assert result.attempts == 1
    assert last_version(target) == 0


@pytest.mark.parametrize(("executor", "reached"), [("native", 3), ("classic", 4)])
def test_only_changed_and_new_rows_reach_deltas_merge(
    spark: SparkSession, target: str, executor: str, reached: int
):
    source = rows(spark, (1, 1), (2, None), (3, 3), (4, 4))
    result = upsert(spark, target, source, executor=executor)
    assert (result.version, result.executor) == (1, executor)
    assert result.metrics["numSourceRows"] == reached
    assert result.metrics["numTargetRowsUpdated"] == 2
    assert result.metrics["numTargetRowsInserted"] == 1
    assert read(spark, target) == [(1, 1), (2, None), (3, 3), (4, 4)]


NESTED = "id int, f double, p struct<x: int, y: string>, a array<double>, b binary, d decimal(9,2)"
VALUES = "SELECT {id} id, {f} f, {p} p, {a} a, unhex('01') b, CAST(1.5 AS decimal(9,2)) d"
SAME = {
    "id": "1",
    "f": "double('NaN')",
    "p": "named_struct('x', 1, 'y', CAST(NULL AS string))",
    "a": "array(double('NaN'), NULL, 0D)",
}


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({}, False),
        ({"a": "array(double('NaN'), NULL, -0D)"}, False),
        ({"f": "CAST(NULL AS double)"}, True),
        ({"p": "CAST(NULL AS struct<x: int, y: string>)"}, True),
        ({"p": "named_struct('y', CAST(NULL AS string), 'x', 1)"}, False),
        ({"p": "named_struct('y', 'new', 'x', 1)"}, True),
        ({"a": "array(double('NaN'), NULL)"}, True),
        ({"id": "1L"}, False),
    ],
    ids=str,
)
def test_equality_is_null_safe_and_goes_into_structs(
    spark: SparkSession, tmp_path: Path, changes: dict[str, str], changed: bool
):
    path = create(spark, tmp_path / "nested", NESTED, [])
    spark.sql(VALUES.format(**SAME)).write.format("delta").mode("append").save(path)
    result = upsert(spark, path, spark.sql(VALUES.format(**{**SAME, **changes})))
    assert (result.version is not None) is changed
    assert result.metrics["numTargetRowsUpdated"] == int(changed)


def test_maps_cannot_be_compared_and_count_as_changed(spark: SparkSession, tmp_path: Path):
    ddl = "id int, m map<string, int>"
    path = create(spark, tmp_path / "maps", ddl, [(1, {"a": 1})])
    result = upsert(spark, path, rows(spark, (1, {"a": 1}), ddl=ddl))
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert "values of m map<string,int> cannot be compared" in result.executor_reason


def test_unchanged_rows_do_not_fall_to_the_next_clause(spark: SparkSession, target: str):
    source = rows(spark, (1, 1), (2, 9), (3, None))
    builder = merge_into(spark, target, source, ON)
    builder = builder.when_matched_update_all("s.id < 3", skip_unchanged=True)
    builder.when_matched_delete().execute()
    assert read(spark, target) == [(1, 1), (2, 9)]


def test_an_earlier_clause_still_acts_on_equal_rows(spark: SparkSession, target: str):
    builder = merge_into(spark, target, rows(spark, (1, 1), (2, 2)), ON)
    builder = builder.when_matched_delete("s.id = 1")
    builder.when_matched_update_all(skip_unchanged=True).execute()
    assert read(spark, target) == [(2, 2), (3, None)]


def test_rows_that_no_clause_takes_do_not_force_a_commit(spark: SparkSession, target: str):
    source = rows(spark, (1, 0), (2, 2))
    builder = merge_into(spark, target, source, ON)
    builder = builder.when_matched_update_all("s.v > t.v", skip_unchanged=True)
    assert builder.when_not_matched_insert_all().execute().version is None


def test_an_unchanged_twin_does_not_hide_an_ambiguous_match(spark: SparkSession, target: str):
    with pytest.raises(MergeError, match=r"MULTIPLE_SOURCE_ROW.*more than once: id=2\."):
        upsert(spark, target, rows(spark, (1, 1), (2, 2), (2, 5)))
    assert last_version(target) == 0


def test_of_several_matches_only_the_changed_are_written(spark: SparkSession, tmp_path: Path):
    path = create(spark, tmp_path / "many", DDL, [(1, 1), (1, 7), (2, 2)])
    result = upsert(spark, path, rows(spark, (1, 7)))
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert read(spark, path) == [(1, 7), (1, 7), (2, 2)]


def test_unchanged_rows_are_not_taken_for_missing_ones(spark: SparkSession, target: str):
    builder = merge_into(spark, target, rows(spark, (1, 1), (2, 8)), ON, executor="native")
    builder = builder.when_matched_update_all(skip_unchanged=True)
    result = builder.when_not_matched_by_source_delete().execute()
    assert read(spark, target) == [(1, 1), (2, 8)]
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert "not matched by source" in result.executor_reason


def test_without_an_equality_a_condition_does_it(spark: SparkSession, target: str):
    result = upsert(spark, target, rows(spark, (1, 1)), "t.id <= s.id")
    assert result.metrics["numTargetRowsUpdated"] == 0
    assert "ON contains no equality" in result.executor_reason
    assert read(spark, target) == [(1, 1), (2, 2), (3, None)]


def test_columns_bound_to_the_source_still_resolve(spark: SparkSession, target: str):
    source = rows(spark, (1, 1), (2, 5))
    builder = merge_into(spark, target, source, F.col("t.id") == source["id"], executor="native")
    builder = builder.when_matched_update_all(source["v"] > 0, skip_unchanged=True)
    result = builder.when_not_matched_insert(values={"id": source["id"]}).execute()
    assert result.metrics["numSourceRows"] == 1
    assert read(spark, target) == [(1, 1), (2, 5), (3, None)]


@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize("on", [ON, "t.id <= s.id AND t.id >= s.id"])
def test_a_value_for_a_new_column_is_a_change(
    spark: SparkSession, target: str, on: str, by_session: bool
):
    session = spark.newSession()
    session.conf.set(AUTO_MERGE, str(by_session).lower())
    source = rows(session, (1, 1, "x"), (2, 2, None), ddl="id int, v int, note string")
    builder = merge_into(session, target, source, on)
    builder = builder if by_session else builder.with_schema_evolution()
    result = builder.when_matched_update_all(skip_unchanged=True).execute()
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert read(spark, target) == in_order([(1, 1, "x"), (2, 2, None), (3, None, None)])


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(
    ("narrow", "wide", "old", "same", "finer"),
    [
        ("decimal(10,2)", "decimal(12,4)", "1.23", "1.2300", "1.2349"),
        ("int", "double", "1", "1.0", "1.5"),
        ("float", "double", "0.1", "CAST(0.1 AS float)", "0.1"),
        ("date", "timestamp_ntz", "'2026-01-02'", "'2026-01-02'", "'2026-01-02 12:00:00'"),
    ],
)
def test_a_value_for_which_its_column_gets_wider_is_a_change(
    spark: SparkSession, tmp_path: Path, narrow, wide, old, same, finer, skip: bool
):
    path = create(spark, tmp_path / "t", f"id int, v {narrow}", [])
    properties = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({properties})")
    inserted_sql = " UNION ALL ".join(f"SELECT {n} id, CAST({old} AS {narrow}) v" for n in (1, 2))
    spark.sql(f"INSERT INTO delta.`{path}` {inserted_sql}")
    source = spark.sql(
        f"SELECT 1 id, CAST({same} AS {wide}) v UNION ALL SELECT 2, CAST({finer} AS {wide})"
    )
    builder = merge_into(spark, path, source, ON).with_schema_evolution()
    result = builder.when_matched_update_all(skip_unchanged=skip).execute()
    assert result.metrics["numTargetRowsUpdated"] == (1 if skip else 2)
    merged = spark.read.format("delta").load(path)
    assert merged.schema["v"].dataType == source.schema["v"].dataType
    assert merged.exceptAll(source).count() == 0


def test_a_value_that_no_column_can_hold_exactly_is_not_a_change_for_ever(
    spark: SparkSession, tmp_path: Path
):
    path = create(spark, tmp_path / "t", "id int, v float", [(1, 0.1)])
    source = rows(spark, (1, 0.1), ddl="id int, v double")
    builder = merge_into(spark, path, source, ON).with_schema_evolution()
    assert builder.when_matched_update_all(skip_unchanged=True).execute().version is None


def test_a_commit_of_another_writer_just_before_is_seen(spark: SparkSession, target: str):
    def overtake(step: Step, dataset: str) -> None:
        if step is Step.MERGE:
            spark.sql(f"UPDATE delta.`{target}` SET v = 100 WHERE id = 1")

    with observing(overtake):
        result = upsert(spark, target, rows(spark, (1, 1)))
    assert result.version == 2
    assert read(spark, target) == [(1, 1), (2, 2), (3, None)]


@pytest.mark.parametrize("seed", range(3))
def test_rows_end_up_as_without_it(spark: SparkSession, tmp_path: Path, seed: int):
    chance = random.Random(seed)

    def value() -> int | None:
        return chance.choice([None, 0, 1, 2])

    ddl = "id int, a int, b int"
    present = [(chance.choice([None, *range(12)]), value(), value()) for _ in range(20)]
    given = [(key, value(), value()) for key in chance.sample([None, *range(18)], 12)]
    skipping = create(spark, tmp_path / "skipping", ddl, present, DV if seed else "plain", files=2)
    plain = create(spark, tmp_path / "plain", ddl, present, files=2)
    outcomes = []
    for path, skip in ((skipping, True), (plain, False)):
        builder = merge_into(spark, path, rows(spark, *given, ddl=ddl), "t.id = s.id")
        builder = builder.when_matched_delete("s.a = 2 AND t.b = 1")
        builder = builder.when_matched_update_all("s.b IS NOT NULL", skip_unchanged=skip)
        outcomes.append(builder.when_not_matched_insert_all("s.a > 0").execute().metrics)
    assert read(spark, skipping) == read(spark, plain)
    for name in ("numTargetRowsInserted", "numTargetRowsDeleted"):
        assert outcomes[0][name] == outcomes[1][name]
    assert outcomes[0]["numTargetRowsUpdated"] <= outcomes[1]["numTargetRowsUpdated"]
