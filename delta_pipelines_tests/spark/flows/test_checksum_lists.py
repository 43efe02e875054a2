"""The list of files in a table's checksum is what its log says, whatever made the version.

Small tables are read by that list, and our writer begins a new table's checksum itself.
"""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.spark.merge.table_log import standing_files
from delta_pipelines_tests.support.pipelines import run_well, scratch

VECTORS = {"delta.enableDeletionVectors": "true"}


def check_list(spark, name: str) -> int:
    """Hold the newest version's list against the log; gives the version."""
    state = load_table(spark, Identifier(None, *name.split(".")))
    folder = state.location.removeprefix("file:")
    checksum = json.loads(Path(folder, "_delta_log", f"{state.version:020}.crc").read_text())
    listed = {unquote(file["path"]): file.get("deletionVector") for file in checksum["allFiles"]}
    standing = standing_files(folder)
    assert listed == {name: file.get("deletionVector") for name, file in standing.items()}
    assert checksum["numFiles"] == len(listed)
    return state.version


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["plain", "vectors"])
def test_the_checksum_list_is_what_the_log_says_after_every_run(spark, schema, properties):
    names = [f"{schema}.{name}" for name in ("facts", "people", "events")]
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.landing")
    seen = dict.fromkeys(names, -1)

    def declared(number: int, comment: str):
        pipeline = scratch(schema)
        pipeline.source(f"{schema}.landing")

        @pipeline.materialized_view(comment=comment, table_properties=properties)
        def facts(spark):
            return spark.range(number, number + 3)

        @pipeline.upsert(keys=["id"], sequence_by="n", comment=comment, table_properties=properties)
        def people(spark):
            return spark.range(number, number + 3).select("id", F.lit(number).alias("n"))

        @pipeline.streaming_table(
            inputs={"new": f"{schema}.landing"}, comment=comment, table_properties=properties
        )
        def events(new):
            return new

        return pipeline

    for number, comment, full in ((0, "a", []), (1, "a", []), (2, "b", []), (3, "b", names)):
        spark.range(1).write.format("delta").mode("append").saveAsTable(f"{schema}.landing")
        run_well(declared(number, comment), spark, full_refresh=full)
        now = {name: check_list(spark, name) for name in names}
        assert all(now[name] > seen[name] for name in names)
        seen = now
