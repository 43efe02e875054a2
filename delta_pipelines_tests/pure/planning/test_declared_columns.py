"""Declared columns: what a declaration may say, which queries fit, what an old table becomes."""

from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

import delta_pipelines as dp
from delta_pipelines.graph.graph import Table
from delta_pipelines.planning.schema.declared_columns import (
    check_flows,
    commented,
    declared_schema,
    described,
)
from delta_pipelines.planning.schema.ownership import PropertyChange
from delta_pipelines.planning.schema.schema_evolution import Refused, evolved_to_declared

LOSS = "which may lose values: cast it in the query"
INT, LONG, STRING = IntegerType(), LongType(), StringType()
GENERATED, DEFAULT = {"delta.generationExpression": "id + 1"}, {"CURRENT_DEFAULT": "7"}


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def one(name: str, kind: DataType, nullable: bool = True, **metadata: Any) -> StructType:
    return StructType([StructField(name, kind, nullable, metadata)])


def table(**options: Any) -> Table:
    p = dp.Pipeline("p", schema="s")
    p.upsert("t", "SELECT 1 AS id", keys=["id"], **options)
    return p.graph().tables["t"]


def misfits(declared: StructType, **flows: StructType) -> str:
    with pytest.raises(dp.SchemaChangeError) as caught:
        check_flows(table(), declared, flows)
    return caught.value.message


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        *[(kind, kind) for kind in (INT, STRING, DateType(), DecimalType(5, 2))],
        *((ShortType(), INT), (INT, LONG), (INT, DecimalType(12, 2)), (INT, DoubleType())),
        *((FloatType(), DoubleType()), (DecimalType(5, 2), DecimalType(7, 3))),
        *((DateType(), TimestampNTZType()), (NullType(), DateType())),
        (struct(a=INT, b=STRING), struct(B=STRING, a=LONG)),
        (ArrayType(struct(a=INT)), ArrayType(struct(a=LONG))),
        (MapType(STRING, INT), MapType(STRING, LONG)),
    ],
)
def test_a_type_that_holds_every_value_fits(given: DataType, declared: DataType) -> None:
    check_flows(table(), one("v", declared), {"t": one("V", given)})


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        *((LONG, INT), (LONG, DoubleType()), (INT, DecimalType(10, 2)), (INT, FloatType())),
        *((STRING, INT), (INT, STRING), (DoubleType(), DecimalType(38, 10))),
        *((DateType(), TimestampType()), (TimestampType(), DateType()), (INT, struct(a=INT))),
        (DecimalType(7, 3), DecimalType(7, 2)),
    ],
)
def test_a_type_that_may_lose_values_does_not(given: DataType, declared: DataType) -> None:
    message = misfits(one("v", declared), t=one("v", given))
    assert f"v is declared as {declared.simpleString()}" in message
    assert f"the query gives {given.simpleString()}, which may lose values" in message


def test_everything_that_does_not_fit_is_listed() -> None:
    declared = struct(id=INT, name=STRING, s=struct(a=INT, b=INT), xs=ArrayType(struct(x=INT)))
    given = struct(ID=INT, nane=STRING, s=struct(a=STRING), xs=ArrayType(struct(x=INT, y=INT)))
    listed = misfits(declared, t=given).split("; ")
    assert listed[:-1] == [
        "column name (string) is declared and not in the query",
        f"column s.a is declared as int, and the query gives string, {LOSS}",
        "column s.b (int) is declared and not in the query",
        "column xs.element.y is in the query and not declared (did you mean 'xs.element.x'?)",
    ]
    assert listed[-1].startswith("column nane is in the query and not declared (did you mean 'nam")
    assert listed[-1].endswith("Change the query or `columns`.")
    assert "column x occurs twice in flow 'a'" in misfits(
        one("x", INT), a=StructType([*one("X", INT), *one("x", INT)]), b=one("x", INT)
    )


def test_what_delta_fills_may_be_left_out_but_not_inside_a_struct() -> None:
    filled = StructType([*one("a", INT, **DEFAULT), *one("b", INT, **GENERATED), *one("c", INT)])
    check_flows(table(), filled, {"t": one("c", INT)})
    assert "s.a (int)" in misfits(one("s", filled), t=one("s", one("c", INT)))


def test_a_declaration_is_stored_as_delta_stores_it() -> None:
    parsed = StructType(
        [
            StructField("id", INT, False, {"comment": "key", "other": "x"}),
            StructField("n", INT, True, {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7"}),
            StructField("g", LONG, True, {"GENERATION_EXPRESSION": "id + 1"}),
        ]
    )
    declared = declared_schema(table(column_comments={"N": "count"}), parsed)
    assert [f.metadata for f in declared] == [
        {"comment": "key"},
        {"comment": "count", **DEFAULT},
        GENERATED,
    ]
    assert described(declared) == (
        "id int NOT NULL, n int defaulted to 7, g bigint generated as id + 1"
    )


def test_everything_that_cannot_be_declared_is_listed() -> None:
    parsed = StructType(
        [
            StructField("id", INT, True, {"CURRENT_DEFAULT": "1"}),
            StructField("code", VarcharType(3)),
            StructField("xs", ArrayType(INT, containsNull=False)),
            StructField("m", MapType(STRING, one("a", INT, nullable=False))),
            StructField("v", NullType()),
            StructField("n", LONG, True, {"identity.start": 1}),
            StructField("V", INT),
        ]
    )
    with pytest.raises(dp.DatasetError) as caught:
        declared_schema(table(column_comments={"w": "?"}), parsed)
    for part in (
        "column V occurs twice",
        "key id has a default",
        "column code is varchar(3): declare STRING",
        "column xs has a NOT NULL inside",
        "column m has a NOT NULL inside",
        "column v has no type",
        "column n is an identity column",
        "column_comments names 'w', which is not a column",
    ):
        assert part in caught.value.message


def test_an_empty_comment_removes_one() -> None:
    assert commented(one("a", INT, comment="old", k=1), {"A": ""})["a"].metadata == {"k": 1}


def test_a_table_that_keeps_its_rows_takes_the_declared_order_nulls_and_rules() -> None:
    current = StructType([*one("A", INT, nullable=False), *one("b", struct(x=INT, y=INT))])
    declared = StructType(
        [*one("n", INT, **DEFAULT), *one("b", struct(y=INT, x=LONG), False), *one("a", INT)]
    )
    evolved = evolved_to_declared(current, declared, has_rows=True)
    assert evolved == StructType(
        [*one("n", INT, **DEFAULT), *one("b", struct(x=LONG, y=INT), False), *one("A", INT)]
    )


@pytest.mark.parametrize(
    ("current", "declared", "reason"),
    [
        (struct(a=INT, b=INT), struct(a=INT), "column b (int) is not in the declaration"),
        (one("a", INT), one("a", STRING), "column a is int in the table and string"),
        (one("a", LONG), one("a", INT), "not every bigint can be kept as int"),
        (struct(id=INT), StructType([*one("id", INT), *one("g", LONG, **GENERATED)]), "not comput"),
        (one("g", LONG), one("g", LONG, **GENERATED), "rows were not computed with this"),
        (one("a", INT, **DEFAULT), one("b", INT), "column a (int) is not in the declaration"),
        (one("a", LONG, **{"delta.identity.start": 1}), one("a", LONG), "an identity column"),
    ],
)
def test_it_keeps_what_existing_rows_have(
    current: StructType, declared: StructType, reason: str
) -> None:
    with pytest.raises(Refused) as caught:
        evolved_to_declared(current, declared, has_rows=True)
    assert reason in str(caught.value)


def test_an_empty_table_takes_a_generated_column() -> None:
    declared = StructType([*one("id", INT), *one("g", LONG, **GENERATED)])
    assert evolved_to_declared(struct(id=INT), declared, has_rows=False) == declared


def test_a_plan_names_constraints() -> None:
    assert PropertyChange("delta.constraints.c", None, "n > 0").line == "constraint + c = n > 0"
    assert PropertyChange("quality", "a", "b").line == "property ~ quality: a -> b"
