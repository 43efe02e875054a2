"""Materialized views with partitions: what is computed, what stays, and what is refused."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.planning.schema.ownership import PARTITIONS_KEY
from delta_pipelines_tests.support.pipelines import failure, run, run_well, scratch, version_of

DAYS = dp.DailyPartitions("day", start="2024-01-01", end="2024-01-05")
EVERY = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04")


@pytest.fixture
def events(spark: SparkSession, schema: str) -> str:
    """A table of one row for each hour of four days, and rows in no partition."""
    table = f"{schema}.events"
    spark.sql(
        f"CREATE TABLE {table} USING delta PARTITIONED BY (day) AS "
        f"SELECT CAST(at AS DATE) AS day, at, hour(at) % 2 AS k, hour(at) AS v FROM "
        f"(SELECT timestampadd(HOUR, CAST(id AS INT), TIMESTAMP '2024-01-01') AS at FROM range(96))"
    )
    spark.sql(f"INSERT INTO {table} VALUES (NULL, NULL, 0, 1), (DATE '2023-01-01', NULL, 0, 1)")
    return table


def by_day(schema: str, query: str = "SELECT day, k, v FROM {}", **options: object) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.events")
    pipeline.materialized_view("t", query.format("events"), partitions=DAYS, **options)
    return pipeline


def counts(spark: SparkSession, schema: str) -> dict[str, int]:
    rows = spark.table(f"{schema}.t").groupBy("day").count().collect()
    return {str(row["day"]): row["count"] for row in rows}


def late(spark: SparkSession, table: str, day: str) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (DATE '{day}', TIMESTAMP '{day} 12:00:00', 0, 99)")


def test_a_late_day_costs_that_day(spark, schema, events):
    pipeline = by_day(schema)
    first = run_well(pipeline, spark).results["t"]
    assert first.partitions.refreshed == EVERY
    assert [commit.keys for commit in first.partitions.commits] == [EVERY]
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)
    again = run_well(pipeline, spark).results["t"]
    assert (again.status, again.partitions.unchanged) == ("unchanged", EVERY)
    late(spark, events, "2024-01-02")
    planned = pipeline.plan(spark).datasets["t"]
    assert planned.stale_partitions == ("2024-01-02",)
    assert "1 of 4 partitions is computed" in planned.reason
    assert f"{schema}.events changed" in planned.reason
    third = run_well(pipeline, spark).results["t"]
    assert third.partitions.refreshed == ("2024-01-02",)
    assert third.partitions.commits[0].rows == 25
    assert third.partitions.commits[0].rows_of.version == third.version == 1
    assert counts(spark, schema) == {**dict.fromkeys(EVERY, 24), "2024-01-02": 25}


def test_a_named_range_is_one_commit_and_the_others_stay(spark, schema, events):
    pipeline = by_day(schema)
    done = run_well(pipeline, spark, partitions="2024-01-02..2024-01-03").results["t"]
    assert [c.keys for c in done.partitions.commits] == [("2024-01-02", "2024-01-03")]
    assert set(counts(spark, schema)) == {"2024-01-02", "2024-01-03"}
    plan = pipeline.plan(spark, partitions=["2024-01-03..2024-01-04"])
    assert plan.datasets["t"].stale_partitions == ("2024-01-01", "2024-01-04")
    assert "stays stale: 1 partition (2024-01-01)" in str(plan)
    rest = run_well(pipeline, spark).results["t"]
    assert rest.partitions.refreshed == ("2024-01-01", "2024-01-04")
    assert len(rest.partitions.commits) == 2
    assert version_of(spark, f"{schema}.t") == 2


def test_a_range_without_rows_leaves_none(spark, schema, events):
    pipeline = by_day(schema, partition_cols=["day"])
    run_well(pipeline, spark)
    spark.sql(f"DELETE FROM {events} WHERE day = DATE '2024-01-03'")
    done = run_well(pipeline, spark).results["t"]
    assert done.partitions.refreshed == ("2024-01-03",)
    assert set(counts(spark, schema)) == {*EVERY} - {"2024-01-03"}


def test_forced_partitions_are_computed_also_if_nothing_changed(spark, schema, events):
    pipeline = by_day(schema)
    run_well(pipeline, spark)
    done = run_well(pipeline, spark, force=True, partitions=["2024-01-01", "2024-01-04"])
    assert len(done.results["t"].partitions.commits) == 2
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)


def test_rows_outside_of_the_range_are_refused_with_samples(spark, schema, events):
    pipeline = scratch(schema)
    pipeline.source(events)

    @pipeline.materialized_view("t", partitions=DAYS)
    def one_day_too_many(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
        return events.where(f"day >= DATE '{partition.start:%Y-%m-%d}'").select("day", "v")

    run_well(pipeline, spark, partitions="2024-01-04")
    before = version_of(spark, f"{schema}.t")
    done = run(pipeline, spark, partitions="2024-01-02").results["t"]
    message = str(failure(done))
    assert "returned 48 rows outside of 2024-01-02, such as {'day': datetime.date(2024, " in message
    assert "Nothing was written for this range" in message
    assert version_of(spark, f"{schema}.t") == before


def test_a_function_gets_the_range_that_it_computes(spark, schema, events):
    pipeline = scratch(schema)
    pipeline.source(events)
    seen = []

    @pipeline.materialized_view("t", partitions=DAYS)
    def counted(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
        seen.append(partition)
        return events.where(partition.condition).groupBy("day").count()

    run_well(pipeline, spark, partitions="2024-01-02..2024-01-03")
    assert seen[-1].keys == seen[-1].values == ("2024-01-02", "2024-01-03")
    assert str(seen[-1].start) == "2024-01-02 00:00:00+00:00"
    assert str(seen[-1].end) == "2024-01-04 00:00:00+00:00"
    assert run_well(pipeline, spark).results["t"].partitions.refreshed == (EVERY[0], EVERY[3])
    late(spark, events, "2024-01-03")
    assert run_well(pipeline, spark).results["t"].partitions.refreshed == ("2024-01-03",)


def test_another_function_for_the_partitions_computes_them_all(spark, schema, events):
    def declared(limit: int) -> dp.Pipeline:
        pipeline = scratch(schema)
        pipeline.source(events)

        if limit:

            @pipeline.materialized_view("t", partitions=DAYS)
            def one(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
                rows = events.where(partition.condition)
                return rows.where("v < 5") if "2024-01-04" in partition.keys else rows

        else:

            @pipeline.materialized_view("t", partitions=DAYS)
            def one(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
                rows = events.where(partition.condition)
                return rows.where("v < 6") if "2024-01-04" in partition.keys else rows

        return pipeline

    run_well(declared(1), spark, partitions="2024-01-01..2024-01-02")
    assert declared(1).plan(spark).datasets["t"].stale_partitions == EVERY[2:]
    # The plan of the first partition is the same; the text of the function is not.
    assert declared(0).plan(spark).datasets["t"].stale_partitions == EVERY


def test_files_that_a_function_reads_for_a_partition_have_no_version(spark, schema, tmp_path: Path):
    for key in EVERY:
        (tmp_path / f"{key}.csv").write_text(f"{key},1\n")
    pipeline = scratch(schema)

    @pipeline.materialized_view("t", partitions=DAYS)
    def read(spark: SparkSession, partition: dp.PartitionRange) -> DataFrame:
        paths = [str(tmp_path / f"{key}.csv") for key in partition.keys]
        return spark.read.schema("day DATE, v INT").csv(paths)

    run_well(pipeline, spark, partitions="2024-01-01..2024-01-03")
    (tmp_path / "2024-01-02.csv").write_text("2024-01-02,1\n2024-01-02,2\n")
    (tmp_path / "2024-01-01.csv").unlink()
    run_well(pipeline, spark, partitions="2024-01-02")
    assert counts(spark, schema) == {"2024-01-01": 1, "2024-01-02": 2, "2024-01-03": 1}


def test_changed_files_of_a_source_without_the_column_are_found_by_halving(spark, schema, events):
    spark.sql(f"CREATE TABLE {schema}.raw USING delta AS SELECT at, v FROM {events} WHERE k = 0")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.raw")
    query = "SELECT CAST(at AS DATE) AS day, sum(v) AS v FROM raw GROUP BY CAST(at AS DATE)"
    pipeline.materialized_view("t", query, partitions=DAYS)
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.raw VALUES (TIMESTAMP '2024-01-03 01:00:00', 7)")
    assert run_well(pipeline, spark).results["t"].partitions.refreshed == ("2024-01-03",)


def test_a_file_that_optimize_added_and_a_delete_removed_counts(spark, schema, events):
    spark.sql(f"CREATE TABLE {schema}.raw USING delta AS SELECT day, v FROM {events} WHERE v < 9")
    spark.sql(f"INSERT INTO {schema}.raw VALUES (DATE '2024-01-04', 99)")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.raw")
    pipeline.materialized_view("t", "SELECT day, v FROM raw", partitions=DAYS)
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.raw VALUES (DATE '2024-01-01', 1)")
    spark.sql(f"OPTIMIZE {schema}.raw")
    spark.sql(f"DELETE FROM {schema}.raw WHERE day = DATE '2024-01-04'")
    run_well(pipeline, spark)
    assert counts(spark, schema) == {"2024-01-01": 10, "2024-01-02": 9, "2024-01-03": 9}


def test_maintenance_of_an_input_makes_nothing_stale(spark, schema, events):
    pipeline = by_day(schema)
    run_well(pipeline, spark)
    spark.sql(f"OPTIMIZE {events}")
    spark.sql(f"OPTIMIZE {schema}.t")
    assert run_well(pipeline, spark).results["t"].status == "unchanged"
    late(spark, events, "2024-01-02")
    spark.sql(f"OPTIMIZE {events}")
    assert run_well(pipeline, spark).results["t"].partitions.refreshed == ("2024-01-02",)


def test_partitions_of_partitions_follow_in_one_run(spark, schema, events):
    pipeline = by_day(schema, partition_cols=["day"])
    months = dp.MonthlyPartitions("month", start="2023-12-01", end="2024-03-01")
    query = "SELECT trunc(day, 'MM') AS month, sum(v) AS v FROM t GROUP BY trunc(day, 'MM')"
    pipeline.materialized_view("m", query, partitions=months)

    @pipeline.materialized_view("d", partitions=DAYS)
    def doubled(t: DataFrame) -> DataFrame:
        return t.selectExpr("day", "2 * v AS v")

    run_well(pipeline, spark)
    late(spark, events, "2024-01-02")
    plan = pipeline.plan(spark, partitions="2024-01-02")
    assert plan.datasets["t"].stale_partitions == ("2024-01-02",)
    # This run writes their input, so all count as stale, and none is said to stay so.
    assert plan.datasets["d"].stale_partitions == EVERY
    assert "those of 1 partition that change in this run" in plan.datasets["d"].reason
    assert "stays stale" not in str(plan)
    assert pipeline.plan(spark, refresh=["d"]).datasets["d"].stale_partitions == ()
    done = run_well(pipeline, spark, partitions="2024-01-01..2024-01-02").results
    assert done["t"].partitions.refreshed == ("2024-01-02",)
    assert done["d"].partitions.refreshed == ("2024-01-02",)
    assert done["m"].partitions.refreshed == ("2024-01-01",)
    # The month of a day that has not ended is left out.
    assert run_well(pipeline, spark, partitions="2024-01-03").success
    total = spark.table(f"{schema}.m").first().v
    assert total == spark.table(f"{schema}.t").selectExpr("sum(v)").first()[0] == 4 * 276 + 99


def test_a_new_column_comes_with_the_partitions_that_are_computed(spark, schema, events):
    run_well(by_day(schema), spark)
    wider = by_day(schema, "SELECT day, k, v, v * 2 AS w FROM {}")
    done = run_well(wider, spark, partitions="2024-01-02").results["t"]
    assert done.changes == ("column + w int",)
    filled = spark.table(f"{schema}.t").where("w IS NOT NULL")
    assert {str(row.day) for row in filled.collect()} == {"2024-01-02"}
    assert wider.plan(spark).datasets["t"].stale_partitions == (EVERY[0], *EVERY[2:])


def test_a_comment_computes_no_partition(spark, schema, events):
    run_well(by_day(schema), spark)
    done = run_well(by_day(schema, comment="by day"), spark).results["t"]
    assert (done.status, done.partitions.refreshed) == ("completed", ())
    assert run_well(by_day(schema, comment="by day"), spark).results["t"].status == "unchanged"
    checked = by_day(schema, comment="by day", constraints={"small": "v < 20"})
    assert "broken by 16 of its rows" in str(failure(run(checked, spark).results["t"]))


@pytest.mark.parametrize(
    ("query", "partitions", "words"),
    [
        ("SELECT k, v FROM {}", DAYS, "'day', which is not in the query"),
        ("SELECT array(1) AS day, v FROM {}", DAYS, "column day is array<int>"),
        ("SELECT CAST(day AS STRING) AS day FROM {}", DAYS, "cast it to DATE or TIMESTAMP"),
        ("SELECT day, CAST(v AS BIGINT) AS v, k FROM {}", DAYS, "from int to bigint"),
        ("SELECT day, v FROM {}", DAYS, "column k (int) is not in the query"),
        (
            "SELECT day, k, v FROM {}",
            dp.MonthlyPartitions("day", start="2024-01-01"),
            "has the partitions daily(day, UTC), the declaration says monthly(day, UTC, ",
        ),
        (
            "SELECT day, k, v FROM {}",
            dp.StaticPartitions("k", ["x"]),
            "'x' is not a value of column k",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_the_plan(spark, schema, events, query, partitions, words):
    run_well(by_day(schema), spark)
    pipeline = scratch(schema)
    pipeline.source(events)
    pipeline.materialized_view("t", query.format("events"), partitions=partitions)
    planned = pipeline.plan(spark).datasets["t"]
    assert words in str(planned.error)
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)


def test_other_partitions_take_a_full_refresh(spark, schema, events):
    run_well(by_day(schema), spark)
    pipeline = scratch(schema)
    pipeline.source(events)
    months = dp.MonthlyPartitions("day", start="2023-01-01", end="2024-02-01")
    pipeline.materialized_view("t", "SELECT day, k, v FROM events", partitions=months)
    done = run_well(pipeline, spark, full_refresh=["t"]).results["t"]
    assert (done.action, len(done.partitions.commits)) == ("full_refresh", 1)
    assert sum(counts(spark, schema).values()) == 4 * 24 + 1
    plain = scratch(schema)
    plain.source(events)
    plain.materialized_view("t", "SELECT day, k, v FROM events")
    run_well(plain, spark)
    found = spark.sql(f"SHOW TBLPROPERTIES {schema}.t").collect()
    assert PARTITIONS_KEY not in {row.key for row in found}
    assert "has rows and no partitions" in str(by_day(schema).plan(spark).datasets["t"].error)


def test_a_full_refresh_is_one_commit_unless_it_is_not_allowed(spark, schema, events):
    pipeline = by_day(schema)
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (DATE '2022-01-01', 0, 0)")
    plan = pipeline.plan(spark, full_refresh=["t"], partitions="2024-01-02").datasets["t"]
    assert "all rows are replaced in one commit by those of 4 partitions" in plan.reason
    run_well(pipeline, spark, full_refresh=["t"], partitions="2024-01-02")
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)
    assert version_of(spark, f"{schema}.t") == 2
    kept = by_day(schema, table_properties={"pipelines.reset.allowed": "false"})
    done = run_well(kept, spark, full_refresh_all=True).results["t"]
    assert done.reset_blocked
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)


def test_rows_of_another_writer_make_all_partitions_stale(spark, schema, events):
    pipeline = by_day(schema)
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (DATE '2024-01-02', 0, 0)")
    planned = pipeline.plan(spark).datasets["t"]
    assert planned.stale_partitions == EVERY
    assert "another writer changed its rows" in planned.reason
    run_well(pipeline, spark)
    assert counts(spark, schema) == dict.fromkeys(EVERY, 24)


def test_partitions_that_do_not_exist_stop_before_anything_runs(spark, schema, events):
    pipeline = by_day(schema)
    for named in ("2024-02-01", "2024-01-03..2024-01-01", "yesterday"):
        with pytest.raises(dp.DeclarationError):
            pipeline.run(spark, partitions=named)
    assert not spark.catalog.tableExists(f"{schema}.t")


def test_without_the_classes_of_delta_a_range_is_replaced_too(spark, schema, events, monkeypatch):
    pipeline = by_day(schema)
    for module in ("transaction", "dry_run"):
        path = f"delta_pipelines.delta.write.{module}.unavailable"
        monkeypatch.setattr(path, lambda *_: "a test says so.", raising=False)
    run_well(pipeline, spark)
    late(spark, events, "2024-01-02")
    done = run_well(pipeline, spark, partitions="2024-01-02").results["t"]
    assert "several commits" in done.notes[0]
    assert counts(spark, schema) == {**dict.fromkeys(EVERY, 24), "2024-01-02": 25}
