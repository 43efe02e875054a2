"""The declared columns are the table's: names, types, order, comments, NOT NULL, rules."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    mirror,
    run_one,
    scratch,
    seen,
    version_of,
)

KINDS = ["materialized_view", "upsert", "streaming_table"]


class DeclaredTable:
    """A table `t` of some kind, declared with other columns and filled with other rows each time.

    A streaming table gets the rows of all runs, an upsert merges them by `id`.
    """

    def __init__(self, kind: str, spark: Any, schema: str) -> None:
        self.kind, self.spark, self.schema = kind, spark, schema
        self.feed = Feed("id INT")
        self.folders = 0
        self.streamed = ""

    def pipeline(self, **options: Any) -> Any:
        pipeline = scratch(self.schema)
        if self.kind == "materialized_view":
            mirror(pipeline, "t", self.feed, **options)
        elif self.kind == "upsert":
            merged(pipeline, "t", self.feed, keys=["id"], **options)
        else:
            pipeline.source(f"{self.schema}.landing")
            pipeline.streaming_table("t", **options)(lambda landing: landing)
        return pipeline

    def give(self, *rows: Any, given: str = "id INT, v STRING") -> None:
        self.feed.set(*rows, columns=given)
        if self.kind == "streaming_table":
            frame = self.spark.createDataFrame(list(rows), given)
            name = f"{self.schema}.landing"
            frame.write.format("delta").mode("append").saveAsTable(name)

    def run(self, **options: Any) -> Any:
        how = {key: options.pop(key) for key in ("full_refresh",) if key in options}
        return run_one(self.pipeline(**options), self.spark, **how)

    def well(self, **options: Any) -> Any:
        result = self.run(**options)
        assert result.error is None, result.error
        return result

    def fails(self, **options: Any) -> str:
        before = self.seen
        error = failure(self.run(**options))
        assert self.seen == before
        return str(error)

    @property
    def seen(self) -> Any:
        return seen(self.spark, f"{self.schema}.t")

    @property
    def version(self) -> int:
        return version_of(self.spark, f"{self.schema}.t")


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, spark: Any, schema: str) -> DeclaredTable:
    return DeclaredTable(request.param, spark, schema)


def field(
    name: str, kind: T.DataType, comment: str = "", *, nullable: bool = True
) -> T.StructField:
    return T.StructField(name, kind, nullable, {"comment": comment} if comment else {})


TEXT = "ID BIGINT NOT NULL COMMENT 'key', v STRING, n DECIMAL(12,2)"
TYPE = T.StructType(
    [
        field("ID", T.LongType(), "key", nullable=False),
        field("v", T.StringType()),
        field("n", T.DecimalType(12, 2)),
    ]
)


@pytest.mark.parametrize("columns", [TEXT, TYPE], ids=["text", "type"])
def test_the_table_has_the_declared_names_types_order_and_comments(table, columns):
    table.give((5, "a", 1), given="n INT, v STRING, id INT")
    plan = str(table.pipeline(columns=columns).plan(table.spark))
    assert "3 declared columns: ID bigint NOT NULL, v string, n decimal(12,2)" in plan
    table.well(columns=columns, column_comments={"V": "value"})
    assert table.seen.schema == T.StructType(
        [TYPE["ID"], field("v", T.StringType(), "value"), TYPE["n"]]
    )
    assert table.seen.rows == [(1, "a", Decimal("5.00"))]
    assert table.version == (1 if table.kind == "streaming_table" else 0)


def test_nothing_is_written_again_when_nothing_changed(table):
    table.give((5, "a", 1), given="n INT, v STRING, id INT")
    options = {
        "columns": TEXT + ", d INT DEFAULT 7, g BIGINT GENERATED ALWAYS AS (ID + 1)",
        "constraints": {"small": "n < 100"},
    }
    table.well(**options)
    version = table.version
    plan = table.pipeline(**options).plan(table.spark).datasets["t"]
    assert plan.changes == ()
    table.well(**options)
    assert table.version == version or table.kind == "materialized_view"


def test_what_does_not_fit_is_one_error_that_lists_all_with_the_location(table):
    table.give((1, "a", 1.5, "x"), given="id INT, v STRING, price DOUBLE, vv STRING")
    message = table.fails(columns="id INT, v INT, price DECIMAL(10,2), missing DATE")
    for part in (
        "column v is declared as int, and the query gives string, which may lose values",
        "column price is declared as decimal(10,2), and the query gives double",
        "column missing (date) is declared and not in the query",
        "column vv is in the query and not declared",
        f"{__file__}:" if table.kind == "streaming_table" else "pipelines.py:",
    ):
        assert part in message.replace("flow 't'", "the query")
    assert table.seen is None


def test_nested_columns_are_conformed_and_checked_too(table):
    given = "id INT, s STRUCT<b: INT, A: INT>, xs ARRAY<STRUCT<y: INT, x: INT>>"
    table.give((1, (2, 1), [(4, 3)]), given=given)
    message = table.fails(columns="id INT, s STRUCT<a: STRING, c: INT>, xs ARRAY<STRUCT<x: INT>>")
    for part in ("s.a is declared as string", "s.c (int)", "s.b is in", "xs.element.y is in"):
        assert part in message
    columns = (
        "id INT, s STRUCT<a: BIGINT COMMENT 'first', b: INT>, xs ARRAY<STRUCT<x: INT, y: INT>>"
    )
    table.well(columns=columns)
    ((_, inner, (element,)),) = table.seen.rows
    assert (tuple(inner), tuple(element)) == ((1, 2), (3, 4))
    assert table.seen.schema["s"].dataType["a"].metadata == {"comment": "first"}


def test_a_column_of_nulls_gets_the_declared_type(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS id, NULL AS v", columns="id INT, v DATE")
    pipeline.run(spark)
    assert seen(spark, f"{schema}.t").rows == [(1, None)]


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ("id INTT", 'Unsupported data type "INTT"'),
        ("id", "is not DDL text of columns"),
        ("id INT) PARTITIONED BY (id", "has more than columns"),
        ("id INT CHECK (id > 0)", "give CHECK constraints by constraints="),
        ("id INT, ID INT", "column ID occurs twice"),
        ("id INT, v VARCHAR(3)", "column v is varchar(3): declare STRING"),
        ("id INT, v STRUCT<a: INT NOT NULL>", "column v has a NOT NULL inside a struct"),
        ("id INT, v BIGINT GENERATED ALWAYS AS IDENTITY", "column v is an identity column"),
        ("id INT, v INT DEFAULT 1 GENERATED ALWAYS AS (id)", "generated and has a default"),
        ("id INT DEFAULT 1, v STRING", "key id has a default or is generated"),
        ("id INT, v STRING COMMENT 'c'", "has a comment in columns and in column_comments"),
        ("id INT", "column_comments names 'v', which is not a column"),
        ("id INT, v STRING DEFAULT id", "default of column v: 'id': [UNRESOLVED_COLUMN"),
        ("id INT, v DATE DEFAULT '2024-01-01'", "is string, and the column is date: cast it"),
        ("id INT, v INT DEFAULT (SELECT 1)", "default of column v: it is evaluated for each row"),
        ("id INT, v INT GENERATED ALWAYS AS (w)", "generation expression of column v: 'w': [UNRES"),
        ("id INT, v STRING GENERATED ALWAYS AS (uuid())", "cannot use a non deterministic"),
    ],
)
def test_what_cannot_be_declared_is_refused_with_the_reason(spark, schema, columns, part):
    table = DeclaredTable("upsert", spark, schema)
    table.give((1, "a"))
    message = table.fails(columns=columns, column_comments={"v": "value"})
    assert part in message
    assert "pipelines.py:" in message


def test_comments_alone_come_on_top_of_the_querys_columns(table):
    table.give((1, "a"))
    table.well(column_comments={"ID": "key"})
    assert table.seen.schema["id"].metadata == {"comment": "key"}
    table.give((2, "b"))
    table.well(column_comments={"id": "new", "v": "value"})
    assert [f.metadata["comment"] for f in table.seen.schema] == ["new", "value"]
    assert "names 'x', which is not a column" in table.fails(column_comments={"x": "?"})


def test_not_null_and_checks_are_enforced(table):
    options = {
        "columns": "id INT, v STRING NOT NULL, n INT",
        "constraints": {"Positive": "n > 0"},
    }
    given = "id INT, v STRING, n INT"
    table.give((1, "a", 1), given=given)
    table.well(**options)
    assert table.seen.properties["delta.constraints.positive"] == "n > 0"
    version = table.version
    table.give((2, None, 1), given=given)
    assert "NOT NULL constraint violated for column: v" in str(failure(table.run(**options)))
    assert table.version == version


def test_a_row_that_breaks_a_check_fails_the_refresh(table):
    table.give((1, 5), given="id INT, n INT")
    table.well(constraints={"Positive": "n > 0"})
    version = table.version
    table.give((2, -1), given="id INT, n INT")
    assert "CHECK constraint positive (n > 0)" in table.fails(constraints={"positive": "n > 0"})
    assert table.version == version


def test_a_check_that_is_not_deterministic_is_refused(spark, schema):
    table = DeclaredTable("upsert", spark, schema)
    table.give((1, "a"))
    assert "gives another value each time" in table.fails(constraints={"c": "rand() < 2"})


def test_keys_of_an_upsert_become_not_null(spark, schema):
    table = DeclaredTable("upsert", spark, schema)
    table.give((1, "a"))
    table.well(columns="id INT, v STRING")
    assert [f.nullable for f in table.seen.schema] == [False, True]
    table.give((1, "b"))
    table.well(columns="id INT, v STRING")
    assert [f.nullable for f in table.seen.schema] == [False, True]


def test_keys_of_a_table_that_has_rows_stay_nullable_until_it_is_refreshed_fully(spark, schema):
    table = DeclaredTable("upsert", spark, schema)
    table.give((1, "a"))
    table.well()
    table.well(columns="id INT, v STRING")
    assert table.seen.schema["id"].nullable
    table.well(columns="id INT, v STRING", full_refresh=["t"])
    assert not table.seen.schema["id"].nullable


def test_defaults_and_generated_columns_are_filled_by_delta(table):
    day = "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))"
    columns = f"id INT, v STRING DEFAULT 'none', {day}, at TIMESTAMP"
    at = dt.datetime(2024, 1, 5, 12)
    table.give((1, at), given="id INT, at TIMESTAMP")
    table.well(columns=columns, partition_cols=["day"])
    assert table.seen.rows == [(1, "none", dt.date(2024, 1, 5), at)]
    table.give((1, at + dt.timedelta(days=1)), (2, at), given="id INT, at TIMESTAMP")
    table.well(columns=columns, partition_cols=["day"])
    later = (1, "none", dt.date(2024, 1, 6), at + dt.timedelta(days=1))
    rows = [later, (2, "none", dt.date(2024, 1, 5), at)]
    if table.kind == "streaming_table":
        rows.insert(0, (1, "none", dt.date(2024, 1, 5), at))
    assert sorted(table.seen.rows) == sorted(rows)


def test_a_column_becomes_generated_in_a_table_with_the_feature(table):
    table.give((1, 5), given="id INT, v INT")
    table.well(columns="id INT, v INT")
    if table.kind != "materialized_view":
        table.spark.sql(f"DELETE FROM {table.schema}.t")  # its row was not computed so
    table.give((2, 6), given="id INT, v INT")
    columns = "id INT, v INT GENERATED ALWAYS AS (id + 1)"
    pipeline = scratch(table.schema)
    if table.kind == "streaming_table":
        pipeline.source(f"{table.schema}.landing")
        pipeline.streaming_table("t", columns=columns)(lambda landing: landing.select("id"))
    else:
        keys = {"keys": ["id"]} if table.kind == "upsert" else {}
        getattr(pipeline, table.kind)("t", "SELECT 2 AS id", columns=columns, **keys)
    before = table.seen
    message = str(failure(run_one(pipeline, table.spark)))
    assert "only with the table feature generatedColumns" in message
    assert table.seen == before
    feature = "'delta.feature.generatedColumns' = 'supported'"
    table.spark.sql(f"ALTER TABLE {table.schema}.t SET TBLPROPERTIES ({feature})")
    assert run_one(pipeline, table.spark).error is None
    assert (2, 3) in table.seen.rows
    assert "delta.generationExpression" in table.seen.schema["v"].metadata
    before = table.version
    assert run_one(pipeline, table.spark).status == "unchanged"
    assert table.version == before


KEEPING = pytest.mark.parametrize("kind", ["upsert", "streaming_table"])


@KEEPING
@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"columns": "id INT, v STRING NOT NULL"}, "NOT NULL of column v is broken by 2 of its"),
        ({"constraints": {"b": "v = 'b'"}}, "CHECK constraint b (v = 'b') is broken by 3 of its"),
        ({"columns": "id INT, v STRING, w INT NOT NULL"}, "NOT NULL of column w is broken by 4"),
    ],
    ids=["not_null", "check", "new_column"],
)
def test_existing_rows_that_break_a_new_rule_refuse_it(spark, schema, kind, options, rule):
    table = DeclaredTable(kind, spark, schema)
    table.give((1, "a"), (2, None), (3, None), (4, "b"))
    table.well()
    wide = "w INT" in options.get("columns", "")
    if kind == "streaming_table" and wide:
        spark.sql(f"ALTER TABLE {schema}.landing ADD COLUMN w INT")
    given = "id INT, v STRING, w INT" if wide else "id INT, v STRING"
    table.give((5, "b", 1) if wide else (5, "b"), given=given)
    message = table.fails(**options)
    assert rule in message
    assert "'v': None" in message or "'v': 'a'" in message
    assert "Nothing was written" in message
    spark.sql(f"DELETE FROM {schema}.t WHERE v IS NULL OR v <> 'b' OR {wide}")
    table.well(**options)
    assert [row[:2] for row in table.seen.rows][-1] == (5, "b")


@KEEPING
def test_changes_that_existing_rows_obey_are_one_commit(spark, schema, kind):
    table = DeclaredTable(kind, spark, schema)
    table.give((1, "a"))
    table.well(columns="id INT, v STRING")
    before = table.version
    table.give((2, "b"))
    columns = "v STRING NOT NULL COMMENT 'new' , id INT NOT NULL, n INT DEFAULT 7"
    plan = table.pipeline(columns=columns, constraints={"c": "v < 'x'"}).plan(spark).datasets["t"]
    changes = "\n".join(plan.changes)
    for line in ("+ n int", "~ v nullability: NULL -> NOT NULL", "constraint + c = v < 'x'"):
        assert line in changes
    table.well(columns=columns, constraints={"c": "v < 'x'"})
    # A stream's batch follows in a commit of its own.
    assert table.version == before + (2 if kind == "streaming_table" else 1)
    assert table.seen.rows == [("a", 1, None), ("b", 2, 7)]
    assert [f.nullable for f in table.seen.schema] == [False, False, True]
    table.give((3, "c"))
    columns = "id INT, v STRING, n INT DEFAULT 8"
    changes = table.pipeline(columns=columns).plan(spark).datasets["t"].changes
    assert {"column ~ n default: 7 -> 8", "constraint - c = v < 'x'"} <= set(changes)
    table.well(columns=columns)
    assert table.seen.rows[-1] == (3, "c", 8)
    assert table.seen.schema["v"].nullable
    assert "delta.constraints.c" not in table.seen.properties


@KEEPING
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("id INT", "column v (string) is not in the declaration"),
        ("id INT, v STRING, n SMALLINT", "column n is int in the table and smallint"),
        (
            "id INT, v STRING, n INT GENERATED ALWAYS AS (id)",
            "column n is generated as id, but the values in existing rows were not computed",
        ),
    ],
)
def test_what_existing_rows_do_not_fit_is_refused(spark, schema, kind, columns, reason):
    table = DeclaredTable(kind, spark, schema)
    names = {"n": "n SMALLINT"} if "SMALLINT" in columns else {}
    table.give((1, "a", 5), given="id INT, v STRING, n INT")
    table.well(columns="id INT, v STRING, n INT")
    pipeline = scratch(schema)
    select = ["id", *(["v"] if "v STRING" in columns else []), *names.values()]
    text = ", ".join(f"CAST(n AS {c.split()[1]}) AS n" if " " in c else c for c in select)
    if kind == "upsert":
        pipeline.upsert(
            "t",
            f"SELECT {text} FROM VALUES (1, 'a', 5) AS x(id, v, n)",
            keys=["id"],
            columns=columns,
        )
    else:
        pipeline.source(f"{schema}.landing")
        pipeline.streaming_table("t", columns=columns)(
            lambda landing: landing.selectExpr(*text.split(", "))
        )
    before = table.seen
    message = str(failure(run_one(pipeline, spark)))
    assert reason in message
    assert "declare in columns= what the table has" in message
    assert table.seen == before


def test_a_drift_policy_applies_to_the_declaration(table):
    table.give((1, "a"))
    table.well(columns="id INT, v STRING", schema_drift="fail")
    table.give((2, "b"))
    table.well(columns="id INT, v STRING COMMENT 'c'", schema_drift="fail")
    for columns in ("id INT, v STRING NOT NULL", "id INT, v STRING DEFAULT 'x'"):
        message = table.fails(columns=columns, schema_drift="fail")
        assert "schema_drift='fail' accepts no column change, and this changes: ~ v" in message


def test_the_readers_of_a_declared_table_see_its_columns(spark, schema):
    pipeline = scratch(schema)
    columns = "id INT NOT NULL, n INT DEFAULT 7, g INT GENERATED ALWAYS AS (id + 1)"
    pipeline.materialized_view("t", "SELECT 1 AS id", columns=columns)
    pipeline.materialized_view("below", "SELECT * FROM t")
    pipeline.view("v", "SELECT g, n FROM t")
    pipeline.run(spark)
    assert seen(spark, f"{schema}.below").rows == [(1, 7, 2)]
    assert spark.table(f"{schema}.v").collect() == [(2, 7)]
    again = pipeline.run(spark)
    assert {r.status for r in again.results.values()} == {"unchanged"}


def test_append_flows_are_checked_one_by_one(spark, schema):
    for name, columns in (("one", "id INT, v STRING"), ("two", "id INT, w STRING")):
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) USING delta")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.one")
    pipeline.source(f"{schema}.two")
    pipeline.create_streaming_table("t", columns="id BIGINT, v STRING, n INT DEFAULT 1")
    pipeline.append_flow(target="t", name="first")(lambda one: one)
    pipeline.append_flow(target="t", name="second")(lambda two: two)
    message = str(failure(run_one(pipeline, spark)))
    assert "column v (string) is declared and not in flow 'second'" in message
    assert "column w is in flow 'second' and not declared" in message
    assert "flow 'first'" not in message
