"""The columns of a layout must exist, before anything is written."""

import pytest
from pyspark.sql.types import StructType

import delta_pipelines as dp
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.planning.schema.target_definition import table_definition

QUERY = (
    StructType()
    .add("a", "integer")
    .add("s", StructType().add("x", "integer"))
    .add("p.q", "integer")
)


def defined(**layout: list[str]) -> TableDefinition:
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS a", **layout)  # type: ignore[call-overload]
    table = pipeline.graph().tables["t"]
    return table_definition(table, None, QUERY, is_full_refresh=False, pipeline="p")


@pytest.mark.parametrize(
    ("layout", "named"),
    [
        ({"partition_cols": ["b"]}, "partition_cols names 'b'"),
        ({"partition_cols": ["s.x"]}, "partition_cols names 's.x'"),
        ({"cluster_by": ["a", "b"]}, "cluster_by names 'b'"),
        ({"cluster_by": ["b.x"]}, "cluster_by names 'b.x'"),
    ],
)
def test_a_column_that_does_not_exist_is_refused(layout: dict[str, list[str]], named: str) -> None:
    with pytest.raises(DatasetError, match=f"{named}, which is not a column of the query"):
        defined(**layout)


def test_columns_are_found_without_letter_case_and_inside_of_structs() -> None:
    assert defined(partition_cols=["A"]).partition_columns == ("a",)
    assert defined(cluster_by=["S.x", "p.q"]).cluster_columns == ("s.x", "p.q")


def test_one_column_is_no_partition_column() -> None:
    with pytest.raises(DatasetError, match="every column is a partition column"):
        defined(partition_cols=["a", "s", "p.q"])
