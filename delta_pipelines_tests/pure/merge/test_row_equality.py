"""The test for unchanged rows, as text."""

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from delta_pipelines.merge.row_equality import Comparison, compare_rows
from delta_pipelines.model.identifiers import quoted

INT, LONG, STRING, DAY = T.IntegerType(), T.LongType(), T.StringType(), T.DateType()


def row(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


def compare(target: T.StructType, source: T.StructType, **options: bool) -> Comparison:
    return compare_rows(
        target,
        source,
        target_alias="t",
        source_alias="s",
        schema_evolution=options.get("evolution", False),
        case_sensitive=options.get("case_sensitive", False),
        widens=options.get("widens", False),
    )


def test_columns_of_one_type_are_compared_null_safely():
    assert compare(row(a=INT, b=STRING), row(b=STRING, a=INT)) == Comparison(
        ("`t`.`a` <=> `s`.`a`", "`t`.`b` <=> `s`.`b`")
    )


def test_a_value_of_another_type_is_cast_as_in_an_update_and_a_failed_cast_is_a_change():
    assert compare(row(a=INT), row(a=LONG)).tests == (
        "(`t`.`a` <=> try_cast(`s`.`a` AS int) AND (`t`.`a` IS NULL) = (`s`.`a` IS NULL))",
    )


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(INT, T.DoubleType()), (T.DecimalType(10, 2), T.DecimalType(12, 4)), (DAY, T.TimestampType())],
)
def test_where_columns_widen_what_only_the_wider_type_holds_is_a_change(narrow, wide, nested):
    target, source = ((row(p=row(a=a)) if nested else row(a=a)) for a in (narrow, wide))
    target_value, value = ("`t`.`p`.`a`", "`s`.`p`.`a`") if nested else ("`t`.`a`", "`s`.`a`")
    exact = f"{target_value} <=> {value})"
    assert exact in compare(target, source, widens=True).tests[0]
    assert exact not in compare(target, source, evolution=True).tests[0]
    assert exact not in compare(row(a=STRING), row(a=wide), widens=True).tests[0]


def test_columns_meet_by_name_whatever_the_case():
    assert compare(row(Id=INT), row(iD=INT)).tests == ("`t`.`Id` <=> `s`.`iD`",)
    sensitive = compare(row(Id=INT), row(iD=INT), case_sensitive=True, evolution=True)
    assert sensitive.tests == ("`s`.`iD` IS NULL",)


def test_with_evolution_a_value_for_a_new_column_is_a_change():
    target, source = row(a=INT), row(a=INT, new=STRING)
    same = "`t`.`a` <=> `s`.`a`"
    assert compare(target, source).tests == (same,)
    assert compare(target, source, evolution=True).tests == (same, "`s`.`new` IS NULL")


def test_structs_of_another_field_order_are_compared_field_by_field():
    target, source = row(p=row(x=INT, y=INT)), row(p=row(y=INT, x=INT))
    assert compare(target, source).tests == (
        (
            "((`t`.`p` IS NULL) = (`s`.`p` IS NULL) AND `t`.`p`.`x` <=> `s`.`p`.`x`"
            " AND `t`.`p`.`y` <=> `s`.`p`.`y`)"
        ),
    )
    assert compare(target, target).tests == ("`t`.`p` <=> `s`.`p`",)


@pytest.mark.parametrize(
    "kind",
    [
        T.MapType(STRING, INT),
        T.VariantType(),
        T.ArrayType(T.MapType(STRING, INT)),
        row(m=T.MapType(STRING, INT)),
    ],
)
def test_types_that_cannot_be_compared_are_named(kind: T.DataType):
    schema = row(id=INT, odd=kind)
    comparison = compare(schema, schema)
    assert comparison.incomparable == (f"odd {kind.simpleString()}",)
    assert comparison.unchanged is None


def test_structs_with_other_fields_count_as_changed():
    assert compare(row(p=row(x=INT)), row(p=row(x=INT, y=INT))).incomparable


def test_collated_text_is_compared_byte_by_byte():
    collated = T.StringType("UTF8_LCASE")
    assert compare(row(a=collated), row(a=STRING)).tests == (
        "CAST(`t`.`a` AS BINARY) <=> CAST(CAST(`s`.`a` AS STRING) AS BINARY)",
    )


def test_rows_without_a_common_column_are_unchanged():
    assert compare(row(a=INT), row(b=INT)) == Comparison(())


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_name_survives_quoting(name: str):
    parsed = sqlglot.parse_one(quoted("t", name), dialect="spark")
    assert (parsed.table, parsed.name) == ("t", name)


def char(text: str, kind: T.DataType) -> T.StructType:
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": text}
    return T.StructType([T.StructField("a", kind, metadata=metadata)])


def test_a_char_is_compared_without_the_spaces_that_pad_it():
    padded, texts = char("char(5)", STRING), T.ArrayType(STRING)
    assert compare(padded, row(a=STRING)).tests == (
        "rtrim(`t`.`a`) <=> rtrim(CAST(`s`.`a` AS STRING))",
    )
    assert compare(char("varchar(5)", STRING), row(a=STRING)).tests == ("`t`.`a` <=> `s`.`a`",)
    inner = row(x=STRING, y=STRING)
    (test,) = compare(char("struct<x:char(2),y:string>", inner), row(a=inner)).tests
    assert "rtrim(`t`.`a`.`x`) <=> rtrim(" in test
    assert "`t`.`a`.`y` <=> `s`.`a`.`y`" in test
    assert "rtrim" in compare(char("array<char(2)>", texts), row(a=texts)).tests[0]
    assert compare(char("no type", inner), row(a=inner)).incomparable
