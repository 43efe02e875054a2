"""The columns of inputs that a query's columns are computed from, as Spark analyses it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from delta_pipelines.delta.query.column_origins import column_origins
from delta_pipelines.delta.query.relations import DECLARED_PREFIX

FLIGHTS, AIRPORTS = "0", "1"


def origins_of(frame: DataFrame) -> dict[str, str] | None:
    """Origins as one text per column: `0.dep 1.city`."""
    origins = column_origins(frame, {FLIGHTS, AIRPORTS})
    if origins is None:
        return None
    return {name: " ".join(".".join(origin) for origin in each) for name, each in origins.items()}


@pytest.fixture
def flights(spark) -> DataFrame:
    rows = spark.sql("SELECT 'LHR' AS origin, 5L AS delay, 'a b' AS tags, 1 AS `od#7,d`")
    return rows.alias(f"{DECLARED_PREFIX}{FLIGHTS}").alias("flights")


@pytest.fixture
def airports(spark) -> DataFrame:
    rows = spark.sql("SELECT 'LHR' AS iata, 'London' AS city")
    return rows.alias(f"{DECLARED_PREFIX}{AIRPORTS}").alias("airports")


@pytest.fixture
def views(spark, flights, airports) -> Iterator[None]:
    """The temporary views `f` and `a`; left in the session they would hide other tests' tables."""
    flights.createOrReplaceTempView("f")
    airports.createOrReplaceTempView("a")
    yield
    for name in "fa":
        spark.catalog.dropTempView(name)


def test_columns_as_they_are_renamed_cast_and_computed(flights) -> None:
    frame = flights.where("delay > 1").select(
        "*",
        F.col("delay").alias("late"),
        F.col("delay").cast("string").alias("text"),
        F.expr("concat(origin, delay)").alias("both"),
        F.lit("x#1").alias("constant"),
        F.expr("`od#7,d` + 1").alias("odder"),
    )
    assert origins_of(frame.orderBy("late").limit(3).distinct()) == {
        "origin": "0.origin",
        "delay": "0.delay",
        "tags": "0.tags",
        "od#7,d": "0.od#7,d",
        "late": "0.delay",
        "text": "0.delay",
        "both": "0.delay 0.origin",
        "constant": "",
        "odder": "0.od#7,d",
    }


def test_joins_aggregates_and_windows(flights, airports) -> None:
    joined = flights.join(airports, F.col("origin") == F.col("iata"), "left")
    by_city = joined.groupBy("city").agg(F.sum("delay").alias("total"), F.count("*").alias("n"))
    ranked = by_city.withColumn("rank", F.rank().over(Window.partitionBy("city").orderBy("total")))
    assert origins_of(ranked) == {
        "city": "1.city",
        "total": "0.delay",
        "n": "",
        "rank": "0.delay 1.city",
    }


def test_a_key_of_a_join_that_is_put_together_is_of_both_sides(flights, airports) -> None:
    renamed = airports.withColumnRenamed("iata", "origin")
    assert origins_of(flights.join(renamed, "origin", "full").select("origin")) == {
        "origin": "0.origin 1.iata"
    }
    left = flights.join(renamed, "origin", "left_semi").select("origin", "delay")
    assert origins_of(left) == {"origin": "0.origin", "delay": "0.delay"}


def test_a_self_join_and_a_union_go_by_position(flights, airports) -> None:
    again = flights.select("origin", F.col("delay").alias("other"))
    assert origins_of(flights.join(again, "origin").select("delay", "other")) == {
        "delay": "0.delay",
        "other": "0.delay",
    }
    union = flights.select("origin", "tags").union(airports.select("city", "iata"))
    assert origins_of(union) == {"origin": "0.origin 1.city", "tags": "0.tags 1.iata"}
    by_name = airports.select("city", F.col("iata").alias("origin"))
    assert origins_of(flights.select("origin").unionByName(by_name, allowMissingColumns=True)) == {
        "origin": "0.origin 1.iata",
        "city": "1.city",
    }


def test_rows_made_of_a_column(flights) -> None:
    assert origins_of(flights.select("origin", F.explode(F.split("tags", " ")).alias("tag"))) == {
        "origin": "0.origin",
        "tag": "0.tags",
    }


def test_sql_with_common_tables_and_temporary_views(spark, views) -> None:
    frame = spark.sql("""
        WITH late AS (SELECT origin, delay * 2 AS twice FROM f WHERE delay > 3),
             both AS (SELECT l.origin, r.twice FROM late AS l JOIN late AS r USING (origin))
        SELECT city, max(twice) AS most FROM both JOIN a ON origin = iata GROUP BY city
        HAVING max(twice) > 1 ORDER BY most
    """)
    assert origins_of(frame) == {"city": "1.city", "most": "0.delay"}


def test_an_alias_that_is_not_asked_for_is_looked_through(flights) -> None:
    temporary = flights.select(F.col("delay").alias("d")).alias(f"{DECLARED_PREFIX}7")
    assert origins_of(temporary.select((F.col("d") + 1).alias("e"))) == {"e": "0.delay"}


def test_tables_that_are_not_inputs_have_no_columns(spark, flights) -> None:
    assert origins_of(flights.crossJoin(spark.range(2)).select("id", "delay")) == {
        "id": "",
        "delay": "0.delay",
    }


def test_an_unknown_node_makes_all_origins_unknown(spark, flights, airports, views) -> None:
    for frame in (
        spark.sql("SELECT origin, (SELECT max(city) FROM a) AS city FROM f"),
        flights.localCheckpoint(),
        flights.select("origin").intersect(airports.select("city")),
        flights.cube("origin", "tags").count(),
        flights.select(*[F.lit(n).alias(f"c{n}") for n in range(250)]),
    ):
        assert origins_of(frame) is None


def test_a_subquery_that_computes_no_column_does_not_matter(spark, views) -> None:
    frame = spark.sql("SELECT origin FROM f WHERE origin IN (SELECT iata FROM a)")
    assert origins_of(frame) == {"origin": "0.origin"}
