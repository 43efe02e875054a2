"""What a query reads is found in its analysed plan."""

from delta_pipelines.delta.log.loading import read_pinned
from delta_pipelines.delta.query.relations import DECLARED_PREFIX, Relation, relations


def kinds(frame) -> list[tuple[str, str | None]]:
    return [(r.kind, r.name) for r in relations(frame)]


def test_a_declared_input_is_found_by_its_alias_and_not_looked_into(spark, put, look) -> None:
    put(spark.range(3))
    pinned = read_pinned(spark, look.state()).alias(f"{DECLARED_PREFIX}flights")
    assert kinds(pinned) == [("declared", "flights")]
    late = pinned.where("id > 1").alias("late").join(pinned, "id")
    assert kinds(late) == [("declared", "flights")]


def test_a_table_has_location_version_and_id(spark, table, put, look) -> None:
    commit = put(spark.range(3))
    name = f"spark_catalog.{table}"
    expected = Relation("delta", name, commit.location, 0, commit.table_id)
    assert relations(spark.table(str(table))) == [expected]
    by_path = Relation("delta", None, commit.location, 0, commit.table_id)
    assert relations(spark.read.format("delta").load(commit.location)) == [by_path]
    put(spark.range(4))
    travelled = relations(spark.sql(f"SELECT * FROM {table} VERSION AS OF 0"))
    assert [r.version for r in travelled] == [0]


def test_views_subqueries_and_ctes_are_seen_through(spark, table, put) -> None:
    commit = put(spark.range(3))
    spark.sql(f"CREATE VIEW {table.schema}.v AS SELECT id FROM {table}")
    spark.range(1).createOrReplaceTempView("own_view")
    view, base = ("view", f"spark_catalog.{table.schema}.v"), ("delta", f"spark_catalog.{table}")
    assert kinds(spark.table(f"{table.schema}.v")) == [view, base]
    assert kinds(spark.table("own_view")) == [("local", None)]
    nested = f"SELECT 1 AS a WHERE 1 IN (SELECT max(id) FROM {table.schema}.v)"
    assert kinds(spark.sql(nested)) == [view, base, ("local", None)]
    scalar = f"SELECT a + (SELECT max(id) FROM {table}) FROM VALUES (1) AS t(a)"
    assert kinds(spark.sql(scalar)) == [base, ("local", None)]
    cte = f"WITH x AS (SELECT * FROM {table}) SELECT * FROM x JOIN x AS y USING (id)"
    assert [(r.kind, r.location) for r in relations(spark.sql(cte))] == [("delta", commit.location)]


def test_a_self_join_is_one_relation(spark, table, put) -> None:
    put(spark.range(3))
    rows = spark.table(str(table))
    joined = rows.alias("l").join(rows.alias("r"), "id").unionByName(rows)
    assert kinds(joined) == [("delta", f"spark_catalog.{table}")]


def test_files_have_their_paths(spark, tmp_path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x.csv").write_text("a\n1\n")
    found = relations(spark.read.csv(str(tmp_path / "a b")))
    assert [(r.kind, r.name) for r in found] == [("files", None)]
    assert found[0].location.endswith(f"{tmp_path}/a b")


def test_other_tables_are_tables(spark, table) -> None:
    spark.sql(f"CREATE TABLE {table} (a INT) USING parquet")
    assert kinds(spark.table(str(table))) == [("table", f"spark_catalog.{table}")]


def test_rows_of_unknown_origin_are_opaque(spark, table, put) -> None:
    put(spark.range(3))
    assert kinds(spark.table(str(table)).localCheckpoint()) == [("opaque", None)]
    assert kinds(spark.createDataFrame([(1,)], "a INT")) == [("opaque", None)]
    assert kinds(spark.range(3)) == [("local", None)]
    assert kinds(spark.sql("SELECT 1")) == [("local", None)]


def test_streams_and_change_feeds_differ_from_batches(spark, table, put, look) -> None:
    commit = put(spark.range(3), properties={"delta.enableChangeDataFeed": "true"})
    stream = relations(spark.readStream.table(str(table)))
    name = f"spark_catalog.{table}"
    assert stream == [Relation("delta", name, commit.location, is_streaming=True)]
    rate = relations(spark.readStream.format("rate").load())
    assert [(r.kind, r.is_streaming) for r in rate] == [("table", True)]
    changes = relations(
        spark.read.option("readChangeFeed", True).option("startingVersion", 0).table(str(table))
    )
    assert [(r.kind, r.location, r.is_streaming) for r in changes] == [
        ("delta", commit.location, False)
    ]
