"""Generated columns: Delta computes them of a clause's values, and refuses other ones."""

import pytest

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import merge_into
from delta_pipelines_tests.spark.merge.oracle import (
    by_source_delete,
    by_source_update,
    delete,
    everything,
    insert,
    last_version,
    read,
    run_own,
    update,
)

COLUMNS = (
    "id INT, at TIMESTAMP, v STRING, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
    "size INT GENERATED ALWAYS AS (length(v))"
)
GIVEN = {"id": "s.id", "at": "s.at", "v": "s.v"}
CASES = {
    "upsert": [update(at="s.at", v="s.v"), insert(**GIVEN)],
    "one of its columns": [update(v="concat(t.v, s.v)")],
    "a column it is not made of": [update(id="t.id + 100")],
    "delete and insert": [delete("s.id = 3"), insert(**GIVEN)],
    "two clauses": [update("s.id = 3", v="s.v"), update(at="s.at"), insert(**GIVEN)],
    "inserts alone": [insert(**GIVEN)],
    "what the source lacks": [
        update(v="s.v"),
        by_source_update("t.id = 1", v="'gone'"),
        by_source_delete("t.id > 5"),
    ],
}
LAYOUTS = {
    "plain": ("", False, False),
    "vectors": ("", True, False),
    "by a generated column": ("PARTITIONED BY (day)", False, False),
    "by a generated column, vectors, feed": ("PARTITIONED BY (day)", True, True),
}


def table(spark, path, layout):
    partitions, vectors, feed = LAYOUTS[layout]
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta {partitions} TBLPROPERTIES ("
        f"'delta.enableDeletionVectors' = '{str(vectors).lower()}', "
        f"'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    rows = spark.range(10).selectExpr(
        "CAST(id AS INT) AS id",
        "TIMESTAMP'2026-01-01 10:00:00' + make_dt_interval(CAST(id AS INT) % 3) AS at",
        "repeat('x', CAST(id AS INT)) AS v",
    )
    rows.coalesce(1).write.format("delta").mode("append").save(path)
    return path


def source(spark):
    return spark.sql(
        "SELECT * FROM VALUES (3, TIMESTAMP'2026-02-03 00:00:00', 'abc'), (4, NULL, NULL), "
        "(30, TIMESTAMP'2026-01-02 01:00:00', 'new') AS s(id, at, v)"
    )


@pytest.mark.parametrize(("case", "layout"), everything(CASES, layouts=LAYOUTS))
def test_generated_columns_are_as_delta_computes_them(spark, tmp_path, case, layout):
    path = table(spark, str(tmp_path / "t"), layout)
    result = run_own(spark, path, lambda: source(spark), "t.id = s.id", CASES[case])
    own = "insert_only" if case == "inserts alone" else "classic"
    assert result.executor == own, result.executor_reason
    made = spark.read.format("delta").load(f"{path}_own")
    wrong = made.where("NOT (day <=> CAST(at AS DATE) AND size <=> length(v))")
    assert wrong.count() == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_value_that_is_not_the_generated_one_is_refused(spark, tmp_path, layout):
    path = table(spark, str(tmp_path / "t"), layout)
    before, version = read(spark, path), last_version(path)
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    merge = merge.when_matched_update(set={"size": "77"})
    with pytest.raises(MergeError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        merge.execute()
    assert (read(spark, path), last_version(path)) == (before, version)


def test_a_source_with_generated_columns_updates_all_columns(spark, tmp_path):
    path = table(spark, str(tmp_path / "t"), "vectors")

    def whole():
        return source(spark).selectExpr("*", "CAST(at AS DATE) AS day", "length(v) AS size")

    result = run_own(spark, path, whole, "t.id = s.id", [update(), insert()])
    assert result.executor == "classic", result.executor_reason
