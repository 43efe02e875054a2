"""What a persisted view is to be, and whether the catalog has it so already."""

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import delta_pipelines as dp
from delta_pipelines.delta.catalog.views import ViewState
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.schema.ownership import PIPELINE_KEY
from delta_pipelines.planning.schema.view_definition import (
    check_view_columns,
    check_view_owner,
    is_foreign,
    published_sql,
    view_properties,
    why_published,
)

VIEW = Identifier(None, "s", "v")
SCHEMA = StructType([StructField("n", IntegerType())])


def flow(sql: str, **options: object) -> Flow:
    p = dp.Pipeline("p", schema="s")
    for name in ("flights", "other.airports", "c.s.planes"):
        p.materialized_view(name, "SELECT 1 AS n")
    p.view("v", sql, **options)
    return p.graph().flows["v"]


@pytest.mark.parametrize(
    ("sql", "published"),
    [
        ("SELECT * FROM flights", "SELECT * FROM flights"),
        ("SELECT * FROM s.flights AS f;", "SELECT * FROM s.flights AS f"),
        ("SELECT * FROM `Flights`", "SELECT * FROM `Flights`"),
        ("SELECT * FROM other.airports", "SELECT * FROM other.airports"),
        ("SELECT * FROM theirs.t", "SELECT * FROM theirs.t"),
    ],
)
def test_names_that_the_catalog_knows_stay_as_they_were_written(sql: str, published: str) -> None:
    assert published_sql(flow(sql)) == published


@pytest.mark.parametrize(
    ("bound", "published"),
    [
        ("flights", "SELECT x.n FROM `s`.`flights` AS `x`"),
        ("other.airports", "SELECT x.n FROM `other`.`airports` AS `x`"),
        ("c.s.planes", "SELECT x.n FROM `c`.`s`.`planes` AS `x`"),
    ],
)
def test_bound_names_become_the_datasets_and_stay_as_aliases(bound: str, published: str) -> None:
    assert published_sql(flow("SELECT x.n FROM x", inputs={"x": bound})) == published


def test_a_bound_name_with_an_alias_keeps_its_alias() -> None:
    made = flow("SELECT f.n FROM x AS f", inputs={"x": "flights"})
    assert published_sql(made) == "SELECT f.n FROM `s`.`flights` AS f"


def test_a_dataset_of_another_catalog_is_named_in_full() -> None:
    made = flow("SELECT * FROM planes", inputs={"planes": "c.s.planes"})
    assert published_sql(made) == "SELECT * FROM `c`.`s`.`planes` AS `planes`"


def test_a_text_that_only_spark_understands_reads_bound_names_by_a_with() -> None:
    assert published_sql(flow("TABLE flights;", inputs={"flights": "flights"})) == "TABLE flights"
    made = flow("TABLE x -- all", inputs={"x": "other.airports"})
    assert published_sql(made) == (
        "WITH `x` AS (TABLE `other`.`airports`)\nSELECT * FROM (TABLE x\n)"
    )


def test_a_function_cannot_be_published() -> None:
    p = dp.Pipeline("p", schema="s")

    @p.materialized_view
    def t(spark): ...

    with pytest.raises(dp.DatasetError, match="SQL text"):
        published_sql(p.graph().flows["t"])


def test_a_view_is_published_only_when_text_comment_properties_and_columns_are_the_same() -> None:
    declared = flow("SELECT * FROM flights;", comment="c", table_properties={"a": "1"})

    def why(schema: StructType = SCHEMA, **changed: object) -> str | None:
        marked = {"a": "1", PIPELINE_KEY: "p"}
        same = {"text": "SELECT * FROM flights", "comment": "c", "properties": marked}
        existing = ViewState(VIEW, **{"schema": SCHEMA, **same, **changed})
        return why_published(existing, declared, schema, pipeline="p")

    assert why() is None
    assert why(StructType([StructField("n", IntegerType(), False)])) is None
    changed = "its text, comment, properties or columns changed"
    assert why(StructType([StructField("n", LongType())])) == changed
    assert why(text="SELECT 1") == changed
    assert why(text=None) == changed
    assert why(comment=None) == changed
    assert why(properties={}) == changed
    assert why(properties=None) == changed
    assert why(properties={"a": "1"}) == "its properties do not name the pipeline that owns it yet"


def test_a_view_made_under_other_settings_is_published_again() -> None:
    declared = flow("SELECT 1 AS n")
    same = {"text": "SELECT 1 AS n", "properties": {PIPELINE_KEY: "p"}}

    def why(stored: dict[str, str] | None, now: dict[str, str] | None) -> str | None:
        existing = ViewState(VIEW, SCHEMA, **same, settings=stored)
        return why_published(existing, declared, SCHEMA, pipeline="p", settings=now)

    ansi = "spark.sql.ansi.enabled"
    assert why({ansi: "true"}, {ansi: "true"}) is None
    assert why({ansi: "false"}, {ansi: "true"}) == f"the setting {ansi} changed (false -> true)"
    assert why({}, {ansi: "true"}) == f"the setting {ansi} changed (None -> true)"
    assert why({ansi: "true"}, {}) == f"the setting {ansi} changed (true -> None)"
    assert why(None, {ansi: "true"}) is None
    assert why({ansi: "true"}, None) is None


def test_the_fingerprint_that_is_written_is_the_one_that_is_compared() -> None:
    declared = flow("SELECT 1 AS n", table_properties={"a": "1"})
    made = ViewState(
        VIEW,
        SCHEMA,
        text=published_sql(declared),
        properties=view_properties(declared.declaration, "p"),
    )
    assert why_published(made, declared, SCHEMA, pipeline="p") is None
    check_view_owner(made, declared, "p")


@pytest.mark.parametrize(
    ("text", "properties", "foreign"),
    [
        ("SELECT 1 AS n", {}, False),
        ("SELECT 2 AS n", {}, True),
        ("SELECT 2 AS n", {"theirs": "x"}, True),
        ("SELECT 2 AS n", {PIPELINE_KEY: "p"}, False),
        (None, None, False),
    ],
)
def test_a_view_without_an_owner_is_foreign_unless_it_has_our_text(
    text, properties, foreign
) -> None:
    existing = ViewState(VIEW, SCHEMA, text=text, properties=properties)
    declared = flow("SELECT 1 AS n")
    assert is_foreign(existing, declared) is foreign
    check_view_owner(existing, declared, "p")


def test_another_pipelines_view_is_refused_as_its_table_would_be() -> None:
    theirs = ViewState(VIEW, SCHEMA, text="SELECT 1 AS n", properties={PIPELINE_KEY: "q"})
    with pytest.raises(dp.DatasetError) as refused:
        check_view_owner(theirs, flow("SELECT 1 AS n"), "p")
    assert str(refused.value) == (
        "v: view s.v belongs to pipeline 'q'. Rename the dataset, or, when this pipeline takes its "
        "place, hand the view over with ALTER VIEW s.v SET TBLPROPERTIES "
        "('delta_pipelines.pipeline' = 'p')."
    )


def test_every_column_of_a_view_needs_a_name_of_its_own() -> None:
    def refused(*fields: StructField, case_sensitive: bool = False) -> str:
        schema = StructType([*SCHEMA.fields, *fields])
        with pytest.raises(DatasetError) as error:
            check_view_columns(schema, "v", case_sensitive=case_sensitive)
        return str(error.value)

    generated = StructField("(1 + n)", IntegerType(), True, {"__autoGeneratedAlias": "true"})
    assert "add an alias to (1 + n)" in refused(generated)
    upper, other = StructField("N", IntegerType()), StructField("n", LongType())
    assert "column N, n occurs twice" in refused(upper, other)
    assert "column n occurs twice" in refused(upper, other, case_sensitive=True)
    check_view_columns(StructType([*SCHEMA.fields, upper]), "v", case_sensitive=True)


@pytest.mark.parametrize("end", ["", ";", " ; ", "\n;\n", "  "])
def test_the_end_of_the_statement_is_left_out(end: str) -> None:
    assert published_sql(flow(f"\n SELECT 1 AS a{end}")) == "SELECT 1 AS a"
