"""What a refused or failed merge says."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import MergeBuilder, merge_into
from delta_pipelines_tests.spark.merge.oracle import DV, PARTITIONED, PLAIN, create, last_version

DDL = "id int, v int"
ON = "t.id = s.id"


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    return create(spark, tmp_path_factory.mktemp("errors") / "target", DDL, [(1, 1), (2, 2)])


def begin(spark: SparkSession, target: str, on: str = ON, **options: str) -> MergeBuilder:
    source = spark.createDataFrame([(1, 5), (3, 7), (3, 8)], DDL)
    return merge_into(spark, target, source, on, **options)


def refused(
    spark: SparkSession, target: str, builder: MergeBuilder, *, version: int | None = None
) -> MergeError:
    """The error of a merge that wrote nothing; a table by its path is at `version`, default 0."""
    with pytest.raises(MergeError) as caught:
        builder.execute()
    if (Path(target) / "_delta_log").exists():
        assert last_version(target) == (version or 0)
    assert caught.value.dataset == target
    assert str(caught.value).startswith(f"{target}: ")
    assert "\n" not in str(caught.value)
    assert not caught.value.transient
    return caught.value


@pytest.mark.parametrize(
    ("on", "error_class"),
    [
        ("t.id = s.nope", "DELTA_MERGE_UNRESOLVED_EXPRESSION"),
        ("id = 1", "AMBIGUOUS_REFERENCE"),
        (f"{ON} AND rand() > 0.5", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        (f"{ON} AND max(s.v) = 1", "DELTA_AGGREGATION_NOT_SUPPORTED"),
        ("t.id = = s.id", "PARSE_SYNTAX_ERROR"),
    ],
)
@pytest.mark.parametrize("skip", [False, True], ids=["plain", "skip_unchanged"])
def test_a_wrong_condition_names_deltas_error_class(
    spark: SparkSession, target: str, on: str, error_class: str, skip: bool
):
    builder = begin(spark, target, on).when_matched_update_all(skip_unchanged=skip)
    error = refused(spark, target, builder)
    assert f"[{error_class}]" in str(error)
    assert error.__cause__ is not None


def test_a_wrong_column_in_a_clause(spark: SparkSession, target: str):
    builder = begin(spark, target).when_matched_update(set={"nope": "1"})
    error = refused(spark, target, builder)
    assert "DELTA_MERGE_UNRESOLVED_EXPRESSION" in str(error)
    assert "nope" in str(error)


@pytest.mark.parametrize("executor", ["native", "classic"])
@pytest.mark.parametrize(
    ("condition", "error_class"),
    [
        ("rand() > 0.5", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        ("s.nope = 1", "DELTA_MERGE_UNRESOLVED_EXPRESSION"),
        ("max(s.v) > 1", "DELTA_AGGREGATION_NOT_SUPPORTED"),
    ],
)
def test_a_wrong_condition_of_a_clause(
    spark: SparkSession, target: str, executor: str, condition: str, error_class: str
):
    builder = begin(spark, target, executor=executor).when_matched_delete(condition)
    assert f"[{error_class}]" in str(refused(spark, target, builder))


NESTED = "id int, s struct<a: int, b: int>"


@pytest.mark.parametrize("executor", ["native", "classic", "insert_only"])
def test_an_insert_into_a_field_of_a_struct(spark: SparkSession, tmp_path: Path, executor: str):
    path = create(spark, tmp_path / "nested", NESTED, [(1, (1, 1))])
    source = spark.createDataFrame([(9, 9)], DDL)
    builder = merge_into(spark, path, source, ON, executor=executor)
    builder = builder.when_not_matched_insert(values={"id": "s.id", "s.a": "s.v"})
    error = str(refused(spark, path, builder))
    assert "[DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION]" in error
    assert "`s`.`a`" in error


@pytest.mark.parametrize("executor", ["native", "classic"])
@pytest.mark.parametrize(
    ("value", "error_class"),
    [
        ("struct(1 AS a)", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
        ("map('a', 1)", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
        ("9999999999L", "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
        ("'no number'", "CAST_INVALID_INPUT"),
    ],
)
@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_value_that_the_column_cannot_take(
    spark: SparkSession, tmp_path: Path, layout: str, executor: str, value: str, error_class: str
):
    path = create(spark, tmp_path / "typed", DDL, [(1, 1), (2, 2)], layout)
    builder = begin(spark, path, executor=executor).when_matched_update(set={"v": value})
    assert f"[{error_class}]" in str(refused(spark, path, builder))


@pytest.mark.parametrize("executor", ["native", "classic"])
@pytest.mark.parametrize("layout", [PLAIN, DV])
@pytest.mark.parametrize(
    ("rule", "error_class"),
    [
        ("NOT NULL", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
        ("ADD CONSTRAINT small CHECK (v < 5)", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
    ],
)
def test_a_row_that_the_table_forbids(
    spark: SparkSession, tmp_path: Path, layout: str, executor: str, rule: str, error_class: str
):
    path = str(tmp_path / "strict")
    vectors = str(layout == DV).lower()
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v INT NOT NULL) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 2)")
    if "CHECK" in rule:
        spark.sql(f"ALTER TABLE delta.`{path}` {rule}")
    before = last_version(path)
    value = "CAST(NULL AS INT)" if "NULL" in rule else "50"
    builder = begin(spark, path, executor=executor).when_matched_update(set={"v": value})
    error = refused(spark, path, builder, version=before)
    assert error_class in str(error)
    good = begin(spark, path, executor=executor).when_matched_update(set={"v": "4"}).execute()
    assert (good.executor, good.metrics["numTargetRowsUpdated"]) == (executor, 1)


def test_a_part_of_a_table_is_not_a_target(spark: SparkSession, tmp_path: Path):
    path = create(spark, tmp_path / "parts", DDL, [(1, 1), (2, 2)], PARTITIONED)
    part = f"{path}/id=1"
    error = refused(spark, part, begin(spark, part).when_matched_delete())
    assert "[DELTA_UNEXPECTED_PARTIAL_SCAN]" in str(error)
    assert last_version(path) == 0


def test_ambiguous_matches_name_the_keys_that_matched(spark: SparkSession, target: str):
    source = spark.createDataFrame([(1, 5), (1, 6), (2, 7), (9, 8), (9, 9)], DDL)
    builder = merge_into(spark, target, source, ON).when_matched_update_all()
    error = str(refused(spark, target, builder))
    assert "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in error
    assert "Source keys that occur more than once: id=1. Keep one row per key" in error


def test_the_error_of_ambiguous_matches_without_keys_has_no_samples(
    spark: SparkSession, target: str
):
    builder = begin(spark, target, "t.id < s.id").when_matched_update_all()
    error = str(refused(spark, target, builder))
    assert "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in error
    assert "more than once" not in error


def test_the_error_of_a_failing_function_has_its_own_message(spark: SparkSession, target: str):
    broken = F.udf(lambda value: {}[f"no {value}"], "int")
    source = spark.createDataFrame([(1, 5)], DDL).withColumn("v", broken("v"))
    builder = merge_into(spark, target, source, ON).when_matched_update_all()
    assert "KeyError: 'no 5'" in str(refused(spark, target, builder))
    assert last_version(target) == 0


def test_a_target_that_is_not_a_delta_table_is_named(spark: SparkSession, schema: str):
    spark.sql(f"CREATE TABLE {schema}.real USING delta AS SELECT 1 id, 1 v")
    spark.sql(f"CREATE VIEW {schema}.seen AS SELECT * FROM {schema}.real")
    spark.sql(f"CREATE TABLE {schema}.files USING parquet AS SELECT 1 id, 1 v")
    spark.table(f"{schema}.real").createOrReplaceTempView("passing")
    for name, message in (
        (f"{schema}.gone", "no such table (TABLE_OR_VIEW_NOT_FOUND)"),
        (f"{schema}.seen", "it is a view"),
        ("passing", "it is a temporary view"),
        (f"{schema}.files", "not a Delta table (DELTA_MISSING_DELTA_TABLE)"),
    ):
        error = refused(spark, name, begin(spark, name).when_matched_delete())
        assert message in str(error)


def test_no_table_at_a_path(spark: SparkSession, tmp_path: Path):
    path = str(tmp_path / "nothing")
    error = refused(spark, path, begin(spark, path).when_matched_delete())
    assert "no Delta table at this path" in str(error)


def test_clauses_are_checked_before_the_target_is_opened(spark: SparkSession):
    builder = begin(spark, "no.such").when_matched_delete().when_matched_update_all()
    error = refused(spark, "no.such", builder)
    assert "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION" in str(error)


def test_an_executor_that_does_not_apply_is_replaced_with_a_reason(
    spark: SparkSession, target: str
):
    builder = begin(spark, target, executor="insert_only").when_matched_update_all("s.id = 9")
    result = builder.execute()
    assert (result.executor, result.version) == ("native", None)
    reason = "insert_only was requested, but it has other clauses than inserts"
    assert result.executor_reason.startswith(reason)
