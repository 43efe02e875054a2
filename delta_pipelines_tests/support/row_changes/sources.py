"""Ways by which what a query reads changes: tables, views, files, and what has no version."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as F

from delta_pipelines_tests.support.row_changes.outside_world import Query, Way, of_sql, viewed

ONE = "CREATE TABLE {t} USING delta AS SELECT 1 AS v"
SWAP = (
    *("ALTER TABLE {t} RENAME COLUMN v TO x", "ALTER TABLE {t} RENAME COLUMN w TO v"),
    *("ALTER TABLE {t} RENAME COLUMN x TO w", "ALTER TABLE {t} ALTER COLUMN v FIRST"),
)
MAPPED = (
    "CREATE TABLE {t} USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS SELECT "
    "1 AS v, 2 AS w"
)


def table(change: str | tuple[str, ...], *begin: str, query: str = "SELECT v FROM {t}") -> Way:
    changes = (change,) if isinstance(change, str) else change
    return Way(of_sql(query), change=changes, begin=begin or (ONE,))


TABLES = {
    "rows_inserted": table("INSERT INTO {t} VALUES (2)", query="SELECT max(v) FROM {t}"),
    "rows_updated": table("UPDATE {t} SET v = 2"),
    "rows_deleted": table(
        "DELETE FROM {t} WHERE v = 1",
        ONE,
        "INSERT INTO {t} VALUES (2)",
        query="SELECT min(v) FROM {t}",
    ),
    "rows_overwritten": table("INSERT OVERWRITE {t} SELECT 2"),
    "table_restored": table(
        "RESTORE TABLE {t} TO VERSION AS OF 0",
        "CREATE TABLE {t} USING delta AS SELECT 2 AS v",
        "INSERT OVERWRITE {t} SELECT 1",
    ),
    "table_replaced": table("CREATE OR REPLACE TABLE {t} USING delta AS SELECT 2 AS v"),
    "table_dropped_and_created": table(
        ("DROP TABLE {t}", "CREATE TABLE {t} USING delta AS SELECT 2 AS v")
    ),
    "column_dropped_and_another_renamed": table(
        ("ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} RENAME COLUMN w TO v"), MAPPED
    ),
    "columns_that_swap_their_names": table(SWAP, MAPPED),
    "column_dropped_and_added": Way(
        of_sql("SELECT coalesce(v, 2) FROM {t}"),
        change=("ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMN (v INT FIRST)"),
        begin=(MAPPED,),
    ),
    "view_redefined": table(
        "CREATE OR REPLACE VIEW {t} AS SELECT 2 AS v", "CREATE VIEW {t} AS SELECT 1 AS v"
    ),
    "function_of_sql_redefined": Way(
        of_sql("SELECT number_of_the_world()"),
        change=("CREATE OR REPLACE TEMPORARY FUNCTION number_of_the_world() RETURN 2",),
        begin=("CREATE OR REPLACE TEMPORARY FUNCTION number_of_the_world() RETURN 1",),
    ),
    "parquet_table_overwritten": table(
        "INSERT OVERWRITE {t} SELECT 2", "CREATE TABLE {t} USING parquet AS SELECT 1 AS v"
    ),
    "parquet_table_replaced": table(
        ("DROP TABLE {t}", "CREATE TABLE {t} USING parquet AS SELECT 2 AS v"),
        "CREATE TABLE {t} USING parquet AS SELECT 1 AS v",
    ),
}


def file_changed(w: Any) -> None:
    """Write the world's number into its files."""
    n = w.number
    w.write("number.json", str(n))
    w.write("rewritten/rows.csv", f"{n}\n")
    w.write(f"added/{n}.csv", f"{n}\n")
    w.write(f"partitions/p={n}/rows.csv", "0\n")
    w.write(f"named/{n}/rows.csv", f"{n}\n")
    if n == 2:
        w.folder.joinpath("removed/1.csv").unlink()
    else:
        w.write("options/rows.csv", "1,x;2\n")
        w.write("removed/1.csv", "1\n")
        w.write("removed/2.csv", "2\n")


FILES: dict[str, Way] = {}


def of_files(query: Query) -> Query:
    FILES[query.__name__] = Way(viewed(query))
    return query


@of_files
def file_rewritten(spark, w):
    return spark.read.schema("v INT").csv(w.path("rewritten"))


@of_files
def file_added(spark, w):
    return spark.read.schema("v INT").csv(w.path("added")).agg(F.max("v"))


@of_files
def file_removed(spark, w):
    return spark.read.schema("v INT").csv(w.path("removed")).agg(F.min("v"))


@of_files
def partition_discovered(spark, w):
    return spark.read.schema("v INT, p INT").csv(w.path("partitions")).agg(F.max("p"))


@of_files
def folder_that_the_function_chooses(spark, w):
    return spark.read.schema("v INT").csv(w.path(f"named/{w.number}"))


@of_files
def option_of_a_file(spark, w):
    options = {"sep": [",", ";"][w.number - 1], "header": "false"}
    read = spark.read.schema("a STRING, b STRING").options(**options).csv(w.path("options"))
    return read.select(F.when(F.col("a") == "1", 1).otherwise(2))


def version_of_a_table(spark, w):
    table = f"{w.schema}_outside.version_of_a_table"
    return spark.read.option("versionAsOf", w.number - 1).table(table).select("v")


FILES["version_of_a_table"] = Way(
    viewed(version_of_a_table), change=("INSERT OVERWRITE {t} SELECT 2",), begin=(ONE,)
)


EACH_TIME: dict[str, Way] = {
    name: Way(of_sql(f"SELECT CAST({text} AS STRING) AS v"), None, skipped=False)
    for name, text in {
        "chance": "rand()",
        "unique": "uuid()",
        "today": "current_date()",
        "moment": "current_timestamp()",
        "today_as_text": "CAST('today' AS DATE)",
        "numbered": "monotonically_increasing_id()",
        "place_of_a_row": "spark_partition_id()",
        "shuffled": "shuffle(array(1, 2, 3))",
    }.items()
}


def each_time(query: Query) -> Query:
    EACH_TIME[query.__name__] = Way(viewed(query), skipped=False)
    return query


@each_time
def rows_of_an_iterator(spark, w):
    return spark.createDataFrame(iter([(w.number,)]), "v INT")


@each_time
def rows_of_a_checkpoint(spark, w):
    return spark.range(w.number, w.number + 1).localCheckpoint()


@each_time
def name_of_a_file(spark, w):
    read = spark.read.schema("v INT").csv(w.path(f"named/{w.number}"))
    return read.select(F.length(F.input_file_name()) * 0 + F.col("v"))


@each_time
def rows_of_an_rdd(spark, w):
    number = w.number

    def rows(_: Iterator[int]) -> Iterator[tuple[int]]:
        yield (number,)

    return spark.sparkContext.parallelize([0], 1).mapPartitions(rows).toDF("v INT")


def rows_of_a_cache(spark, w):
    return spark.table(f"{w.schema}_outside.rows_of_a_cache").cache().agg(F.max("v"))


EACH_TIME["rows_of_a_cache"] = Way(
    viewed(rows_of_a_cache), skipped=False, change=("INSERT INTO {t} VALUES (2)",), begin=(ONE,)
)
SOURCES = {**TABLES, **FILES, **EACH_TIME}
