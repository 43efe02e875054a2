"""Several flows into one table: the union of their columns, that holds every value of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

from delta_pipelines.planning.schema.schema_evolution import Refused, evolved_schema, merged_schema
from delta_pipelines_tests.pure.planning.schemas import INT, LONG, STRING, query_schemas, struct


def test_the_left_flows_order_is_kept_and_new_columns_come_last_at_every_depth() -> None:
    left = struct(s=struct(a=INT, b=INT), xs=ArrayType(struct(x=INT)), only_left=STRING)
    right = struct(
        only_right=LONG, xs=ArrayType(struct(y=STRING, x=LONG)), s=struct(c=STRING, a=LONG)
    )
    assert merged_schema(left, right) == struct(
        s=struct(a=LONG, b=INT, c=STRING),
        xs=ArrayType(struct(x=LONG, y=STRING)),
        only_left=STRING,
        only_right=LONG,
    )


def test_a_map_takes_the_wider_key_and_the_wider_value() -> None:
    left, right = struct(m=MapType(INT, DecimalType(5, 2))), struct(m=MapType(LONG, INT))
    with pytest.raises(Refused, match=r"m\.value"):
        merged_schema(left, right)
    wide = struct(m=MapType(LONG, DecimalType(12, 2)))
    assert merged_schema(left, wide) == wide
    assert merged_schema(wide, left) == wide


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (struct(a=INT), struct(a=STRING), "int in one flow and string in another flow"),
        (struct(a=INT), struct(b=INT, B=INT), "B occurs twice in another flow"),
        (struct(a=INT, A=INT), struct(b=INT), "A occurs twice in one flow"),
        (struct(a=INT), struct(a=struct(b=INT)), "struct<b:int>"),
    ],
)
def test_columns_that_cannot_be_merged_are_refused(
    left: StructType, right: StructType, reason: str
) -> None:
    with pytest.raises(Refused) as caught:
        merged_schema(left, right)
    assert reason in str(caught.value)


def test_the_first_flows_spelling_stays() -> None:
    left, right = struct(s=struct(a=INT), B=INT), struct(b=LONG, S=struct(C=INT, A=INT))
    assert merged_schema(left, right) == struct(s=struct(a=INT, C=INT), B=LONG)


def test_the_first_comment_counts_and_a_missing_column_is_nullable() -> None:
    left = StructType(
        [StructField("a", INT, False, {"comment": "left"}), StructField("b", INT, False)]
    )
    right = StructType(
        [StructField("b", INT, False, {"comment": "r"}), StructField("c", INT, False)]
    )
    assert merged_schema(left, right) == StructType(
        [
            StructField("a", INT, True, {"comment": "left"}),
            StructField("b", INT, False, {"comment": "r"}),
            StructField("c", INT, True),
        ]
    )


@given(st.tuples(query_schemas, query_schemas))
def test_a_table_of_the_union_takes_it_again_without_a_change(
    pair: tuple[StructType, StructType],
) -> None:
    try:
        union = merged_schema(*pair)
    except Refused:
        return
    for side in pair:
        assert merged_schema(union, side) == union
    assert evolved_schema(union, union) == union


@given(query_schemas)
def test_flows_of_the_same_columns_give_these_columns(schema: StructType) -> None:
    assert merged_schema(schema, schema) == schema
