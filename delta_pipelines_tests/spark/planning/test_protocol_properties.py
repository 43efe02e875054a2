"""Declared properties that Delta turns into a protocol, or spells otherwise."""

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.graph.delta_property_names import DELTA_PROPERTIES
from delta_pipelines_tests.support.pipelines import rows_of, run_well, scratch, version_of

DECLARED = {
    "delta.minReaderVersion": "2",
    "delta.minWriterVersion": "5",
    "delta.feature.allowColumnDefaults": "supported",
    "delta.enablechangedatafeed": "true",
}


def test_the_names_are_those_of_delta(spark) -> None:
    configs = Jvm(spark).object("org.apache.spark.sql.delta.DeltaConfigs").getAllConfigs()
    found, values = [], configs.valuesIterator()
    while values.hasNext():
        found.append(values.next().key())
    assert sorted(DELTA_PROPERTIES) == sorted(found)


def test_protocol_properties_do_not_count_as_changes_so_the_next_refresh_merges(
    spark, schema
) -> None:
    def people(last: int, properties=DECLARED):
        pipeline = scratch(schema)
        query = f"SELECT id, id * 10 AS n FROM range({last})"
        pipeline.upsert("people", query, keys=["id"], table_properties=properties)
        return pipeline

    run_well(people(2), spark)
    again = people(2).plan(spark).datasets["people"]
    assert (again.action, again.changes) == ("none", ())
    merged = run_well(people(3), spark).results["people"]
    assert merged.merge is not None
    assert rows_of(spark, f"{schema}.people") == [(0, 0), (1, 10), (2, 20)]
    assert version_of(spark, f"{schema}.people") == 1
    without = {key: value for key, value in DECLARED.items() if "feed" not in key}
    run_well(people(3, without), spark)
    shown = spark.sql(f"SHOW TBLPROPERTIES {schema}.people").collect()
    assert "delta.enableChangeDataFeed" not in {row.key for row in shown}
