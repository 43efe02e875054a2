"""`strict=True`: what Delta would refuse is known while planning, and then nothing is written.

Also where neither the table nor its schema nor the warehouse's folder for it exists.
"""

from pathlib import Path

import pytest
from pyspark.sql.types import DayTimeIntervalType, IntegerType, StructType

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.write.dry_run import rehearse
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines_tests.support.pipelines import rows_of, run, run_well, scratch

pytestmark = pytest.mark.promise(2)


def sql(query, kind="materialized_view", **options):
    """A declaration of the dataset `bad` by a SQL text."""
    return lambda pipeline: getattr(pipeline, kind)("bad", query, **options)


def stream(expression, **options):
    """A declaration of the streaming table `bad` over the dataset `good`."""

    def declare(pipeline):
        @pipeline.streaming_table(inputs={"good": STREAM}, **options)
        def bad(good):
            return good.selectExpr(expression)

    return declare


def flow(pipeline):
    """A new table that one of its append flows makes impossible."""

    @pipeline.streaming_table(inputs={"good": STREAM})
    def bad(good):
        return good

    @pipeline.append_flow(target="bad", inputs={"good": STREAM})
    def more(good):
        return good.selectExpr("id", "INTERVAL 1 DAY AS late")


def properties(**given):
    return {"table_properties": {key.replace("_", "."): value for key, value in given.items()}}


STREAM = dp.Stream("good", skip_change_commits=True)
DEFAULT = "spark.databricks.delta.properties.defaults.appendOnly"
REFUSED = {
    "interval": (sql("SELECT INTERVAL 1 DAY AS i"), "interval"),
    "nested interval": (sql("SELECT array(named_struct('i', INTERVAL 1 YEAR)) AS i"), "interval"),
    "property": (sql("SELECT 1 AS a", **properties(delta_nope="1")), "delta.nope"),
    "value": (sql("SELECT 1 AS a", **properties(delta_appendOnly="maybe")), "maybe"),
    "feature": (sql("SELECT 1 AS a", **properties(delta_feature_nope="supported")), "nope"),
    "mapping": (sql("SELECT 1 AS `a b`", **properties(delta_columnMapping_mode="none")), "a b"),
    "clustering": (sql("SELECT array(1) AS a, 1 AS b", cluster_by=["a"]), "data skipping"),
    "partition": (sql("SELECT map(1, 2) AS a, 1 AS b", partition_cols=["a"]), "folder"),
    "variant": (sql("SELECT parse_json('1') AS a, 1 AS b", partition_cols=["a"]), "variant"),
    "check": (sql("SELECT 1 AS a", **properties(delta_constraints_c="b > 0")), "`b`"),
    "sum": (sql("SELECT 1 AS a", **properties(delta_constraints_c="sum(a) > 0")), "constraint c"),
    "int": (sql("SELECT 1 AS a", **properties(delta_constraints_c="a")), "the type int"),
    "in": (sql("SELECT 1 AS a", **properties(delta_constraints_c="a IN (SELECT 1)")), "subquery"),
    "key": (sql("SELECT named_struct('m', map(1, 2)) AS a", "upsert", keys=["A"]), "a map"),
    "setting": (sql("SELECT 1 AS a", spark_conf={DEFAULT: "maybe"}), "maybe"),
    "map": (sql("SELECT map(1, 2) AS a", "upsert", keys=["a"]), "key 'a' is a map"),
    "upsert": (sql("SELECT 1 AS a, INTERVAL 1 DAY AS b", "upsert", keys=["a"]), "interval"),
    "stream": (stream("INTERVAL 1 DAY AS i"), "interval"),
    "flow": (flow, "interval"),
}


@pytest.fixture
def pipeline_in(spark, warehouse):
    """Gives a pipeline with one good dataset in a schema that does not exist."""
    names = []

    def made(name, catalog=None):
        names.append(name)
        pipeline = scratch(name, catalog=catalog)
        pipeline.materialized_view("good", "SELECT 1 AS id")
        return pipeline

    yield made
    for name in names:
        spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def entries(warehouse):
    return sorted(str(path) for path in Path(warehouse).iterdir())


def test_a_refusal_of_delta_is_planned_in_a_new_schema_too(spark, schema, warehouse, pipeline_in):
    before, found = entries(warehouse), {}
    for number, (name, (declare, reason)) in enumerate(REFUSED.items()):
        new = f"{schema}_new{number}"
        pipeline = pipeline_in(new)
        declare(pipeline)
        with pytest.raises(dp.PlanError) as error:
            pipeline.run(spark, strict=True)
        found[name] = reason in str(error.value).lower()
        assert not spark.catalog.databaseExists(new)
    assert found == dict.fromkeys(REFUSED, True)
    assert entries(warehouse) == before


def test_without_strict_the_others_are_made(spark, schema, pipeline_in):
    pipeline = pipeline_in(f"{schema}_new")
    sql("SELECT INTERVAL 1 DAY AS i")(pipeline)
    results = run(pipeline, spark).results
    assert (results["good"].status, results["bad"].status) == ("completed", "failed")
    assert not spark.catalog.tableExists(f"{schema}_new.bad")


def test_a_table_that_the_catalog_lost_is_refreshed_by_the_first_run(spark, schema, pipeline_in):
    new = f"{schema}_lost"
    pipeline = pipeline_in(new)
    run_well(pipeline, spark)
    state = load_table(spark, dp.Identifier(None, new, "good"))
    folder = Path(state.location.removeprefix("file:"))
    kept = folder.rename(folder.parent.parent / "kept")
    spark.sql(f"DROP SCHEMA {new} CASCADE")
    folder.parent.mkdir(exist_ok=True)
    kept.rename(folder)
    assert pipeline.run(spark, strict=True).results["good"].status == "unchanged"
    assert not Path(folder.parent.name).exists()  # its lease was not in the working directory
    assert spark.catalog.tableExists(f"{new}.good")
    assert rows_of(spark, f"{new}.good") == [(1,)]
    assert load_table(spark, dp.Identifier(None, new, "good")).table_id == state.table_id


def test_a_new_table_of_another_catalog_is_checked_as_an_empty_one(spark, warehouse):
    elsewhere, before = dp.Identifier("elsewhere", "s", "t"), entries(warehouse)
    good = TableDefinition(
        StructType().add("a b", IntegerType()), properties={"delta.appendOnly": "true"}
    )
    rehearse(spark, elsewhere, good, "t", is_new=True)
    bad = TableDefinition(StructType().add("a", DayTimeIntervalType()))
    with pytest.raises(dp.DatasetError, match="unsupported data types"):
        rehearse(spark, elsewhere, bad, "t", is_new=True)
    rehearse(spark, elsewhere, bad, "t")  # of one that is there, only its own catalog knows more
    assert entries(warehouse) == before
