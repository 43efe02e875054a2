"""Which schema a table that keeps its rows gets: it never loses a column or a value."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    ByteType,
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

import delta_pipelines as dp
from delta_pipelines.model.column_types import can_widen
from delta_pipelines.planning.schema.schema_diff import diff_schemas
from delta_pipelines.planning.schema.schema_evolution import (
    Refused,
    evolved_schema,
    needs_rewrite,
    nullable_schema,
    spelled_otherwise,
)
from delta_pipelines.planning.schema.target_definition import table_definition
from delta_pipelines_tests.pure.planning.schemas import (
    INT,
    LONG,
    STRING,
    atoms,
    query_schemas,
    schemas,
    struct,
)

INTEGER_BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
MANTISSA_BITS = {FloatType: 24, DoubleType: 53}


def holds_every_value(narrow: DataType, wide: DataType) -> bool:
    """A model of values: the extreme ones of `narrow` can be written exactly as `wide`."""
    if narrow == wide:
        return True
    if type(narrow) in INTEGER_BITS:
        largest = 2 ** (INTEGER_BITS[type(narrow)] - 1)
        if type(wide) in INTEGER_BITS:
            return largest <= 2 ** (INTEGER_BITS[type(wide)] - 1)
        if type(wide) in MANTISSA_BITS:
            return largest <= 2 ** MANTISSA_BITS[type(wide)]
        return isinstance(wide, DecimalType) and largest < 10 ** (wide.precision - wide.scale)
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        # In units of the last place: Python's Decimal would round at 28 digits.
        largest, limit = 10**narrow.precision - 1, wide.precision - wide.scale + narrow.scale
        return wide.scale >= narrow.scale and largest < 10**limit
    if isinstance(narrow, FloatType):
        return isinstance(wide, DoubleType)
    return isinstance(narrow, DateType) and isinstance(wide, TimestampNTZType)


def leaves(schema: DataType, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], DataType]:
    """Every type that holds values, by its path."""
    match schema:
        case StructType():
            children = [(f.name, f.dataType) for f in schema.fields]
        case ArrayType():
            children = [("element", schema.elementType)]
        case MapType():
            children = [("key", schema.keyType), ("value", schema.valueType)]
        case _:
            return {path: schema}
    return {p: t for name, kind in children for p, t in leaves(kind, (*path, name)).items()}


@st.composite
def changed(draw: st.DrawFn, schema: DataType) -> DataType:
    """The schema with some types changed, some columns gone, some added, all reordered."""
    match schema:
        case StructType():
            fields = [
                StructField(f.name, draw(changed(f.dataType)), True, f.metadata)
                for f in schema.fields
                if draw(st.integers(0, 9)) > 0
            ]
            if draw(st.booleans()):
                fields.append(StructField("new", draw(atoms)))
            return StructType(fields[::-1] if draw(st.booleans()) else fields)
        case ArrayType():
            return ArrayType(draw(changed(schema.elementType)), True)
        case MapType():
            return MapType(draw(changed(schema.keyType)), draw(changed(schema.valueType)), True)
        case _:
            return draw(atoms) if draw(st.integers(0, 4)) == 0 else schema


WIDER = {
    ByteType(): LongType(),
    ShortType(): DecimalType(38, 10),
    IntegerType(): LongType(),
    LongType(): DecimalType(20, 0),
    FloatType(): DoubleType(),
    DateType(): TimestampNTZType(),
}


@st.composite
def grown(draw: st.DrawFn, schema: DataType) -> DataType:
    """The schema with some types wider, and some columns added in front."""
    match schema:
        case StructType():
            fields = [StructField(f.name, draw(grown(f.dataType))) for f in schema.fields]
            new = [StructField("new", draw(atoms))] if draw(st.booleans()) else []
            return StructType(new + fields)
        case ArrayType():
            return ArrayType(draw(grown(schema.elementType)), True)
        case MapType():
            return MapType(draw(grown(schema.keyType)), draw(grown(schema.valueType)), True)
        case _:
            return WIDER.get(schema, schema) if draw(st.booleans()) else schema


pairs = query_schemas.flatmap(lambda schema: st.tuples(st.just(schema), changed(schema)))
growing = query_schemas.flatmap(lambda schema: st.tuples(st.just(schema), grown(schema)))


def evolved_or_none(current: StructType, query: StructType) -> StructType | None:
    try:
        return evolved_schema(current, query)
    except Refused:
        return None


def assert_kept(current: DataType, evolved: DataType, query: DataType) -> None:
    """Current columns first and in order, new ones after them, at every depth."""
    match current, evolved, query:
        case StructType(), StructType(), StructType():
            assert evolved.names[: len(current.names)] == current.names
            assert set(evolved.names) == {*current.names, *query.names}
            for field in current.fields:
                assert evolved[field.name].nullable == field.nullable
                assert_kept(
                    field.dataType, evolved[field.name].dataType, query[field.name].dataType
                )
        case ArrayType(), ArrayType(), ArrayType():
            assert_kept(current.elementType, evolved.elementType, query.elementType)
        case MapType(), MapType(), MapType():
            assert_kept(current.keyType, evolved.keyType, query.keyType)
            assert_kept(current.valueType, evolved.valueType, query.valueType)
        case _:
            assert holds_every_value(current, evolved)
            assert holds_every_value(query, evolved)


@given(pairs)
def test_every_column_stays_in_order_and_nothing_gets_narrower(
    pair: tuple[StructType, StructType],
) -> None:
    current, query = pair
    evolved = evolved_or_none(current, query)
    if evolved is not None:
        assert_kept(current, evolved, query)
        assert evolved_schema(evolved, query) == evolved
        return
    wanted = leaves(query)
    kept = [path for path, kind in leaves(current).items() if wanted.get(path) == kind]
    assert len(kept) < len(leaves(current)), "refused although every column is there as it was"


@given(growing)
def test_a_query_that_only_grows_is_taken_and_taken_again_changes_nothing(
    pair: tuple[StructType, StructType],
) -> None:
    current, query = pair
    evolved = evolved_schema(current, query)
    assert_kept(current, evolved, query)
    assert evolved_schema(evolved, query) == evolved
    assert evolved_schema(evolved, evolved) == evolved
    assert not needs_rewrite(evolved, evolved)


@given(query_schemas)
def test_the_same_columns_change_nothing_in_any_order(schema: StructType) -> None:
    assert evolved_schema(schema, schema) == schema
    assert evolved_schema(schema, StructType(schema.fields[::-1])) == schema


@given(schemas)
def test_a_nullable_schema_differs_only_in_nullability_and_settles(schema: StructType) -> None:
    nullable = nullable_schema(schema)
    assert {c.kind for c in diff_schemas(schema, nullable)} <= {"nullability"}
    assert all(c.target == "NULL" for c in diff_schemas(schema, nullable))
    assert nullable_schema(nullable) == nullable


def test_only_comments_survive_of_a_querys_metadata() -> None:
    metadata = {"comment": "x", "delta.columnMapping.id": 7}
    schema = StructType([StructField("a", INT, False, metadata)])
    assert nullable_schema(schema) == StructType([StructField("a", INT, True, {"comment": "x"})])


@settings(max_examples=300)
@given(atoms, atoms)
@example(DecimalType(29, 0), DecimalType(30, 1))
def test_every_widened_type_holds_every_value(narrow: DataType, wide: DataType) -> None:
    if can_widen(narrow, wide):
        assert holds_every_value(narrow, wide)


@given(atoms, atoms, atoms)
def test_widening_is_transitive_where_every_step_widens(
    first: DataType, second: DataType, third: DataType
) -> None:
    if can_widen(first, second) and can_widen(second, third):
        assert holds_every_value(first, third)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (ByteType(), ShortType()),
        (ShortType(), INT),
        (INT, LONG),
        (INT, DoubleType()),
        (FloatType(), DoubleType()),
        (INT, DecimalType(10, 0)),
        (LONG, DecimalType(20, 0)),
        (DecimalType(5, 2), DecimalType(7, 3)),
        (DateType(), TimestampNTZType()),
    ],
)
def test_deltas_widening_pairs_are_taken_one_way_only(narrow: DataType, wide: DataType) -> None:
    assert evolved_schema(struct(a=narrow), struct(a=wide)) == struct(a=wide)
    assert evolved_schema(struct(a=wide), struct(a=narrow)) == struct(a=wide)
    assert needs_rewrite(struct(a=narrow), struct(a=wide))


@pytest.mark.parametrize(
    ("table", "query"),
    [
        (INT, STRING),
        (STRING, INT),
        (LONG, DoubleType()),
        (INT, FloatType()),
        (INT, DecimalType(9, 0)),
        (DecimalType(5, 2), DecimalType(6, 4)),
        (DateType(), TimestampType()),
        (TimestampType(), TimestampNTZType()),
        (INT, struct(b=INT)),
        (ArrayType(INT), INT),
        (ArrayType(INT), ArrayType(STRING)),
        (MapType(STRING, INT), MapType(INT, INT)),
        (struct(b=INT), struct(b=STRING)),
    ],
)
def test_any_other_type_is_refused_with_the_column_and_both_types(
    table: DataType, query: DataType
) -> None:
    with pytest.raises(Refused) as caught:
        evolved_schema(struct(col=table), struct(col=query))
    (reason,) = caught.value.reasons
    assert "column col" in reason


def test_a_column_that_the_query_does_not_give_is_refused() -> None:
    with pytest.raises(Refused, match=r"column b \(int\) is not in the query"):
        evolved_schema(struct(a=INT, b=INT), struct(a=INT))


def test_a_nested_column_that_the_query_does_not_give_is_refused() -> None:
    with pytest.raises(Refused, match=r"xs\.element\.b"):
        evolved_schema(
            struct(xs=ArrayType(struct(a=INT, b=INT))), struct(xs=ArrayType(struct(a=INT)))
        )


def test_the_table_keeps_its_spelling_at_every_depth() -> None:
    table = struct(a=INT, s=struct(Day=INT), xs=ArrayType(MapType(struct(Key=INT), struct(b=INT))))
    query = struct(
        XS=ArrayType(MapType(struct(KEY=INT), struct(new=INT, B=LONG))),
        S=struct(DAY=INT, New=INT),
        A=INT,
    )
    evolved = evolved_schema(table, query)
    assert evolved == struct(
        a=INT,
        s=struct(Day=INT, New=INT),
        xs=ArrayType(MapType(struct(Key=INT), struct(b=LONG, new=INT))),
    )
    assert not needs_rewrite(struct(a=INT), evolved_schema(struct(a=INT), struct(A=INT)))
    assert spelled_otherwise(evolved, query) == [
        "XS",
        "XS.element.key.KEY",
        "XS.element.value.new",
        "XS.element.value.B",
        "S",
        "S.DAY",
        "S.New",
        "A",
    ]
    assert spelled_otherwise(evolved, evolved) == []


def test_all_reasons_are_reported_at_once() -> None:
    with pytest.raises(Refused) as caught:
        evolved_schema(struct(a=INT, b=INT, c=INT), struct(a=STRING, c=INT))
    assert len(caught.value.reasons) == 2


def test_new_columns_come_last_at_every_depth() -> None:
    evolved = evolved_schema(
        struct(s=struct(a=INT), b=INT), struct(n=STRING, b=INT, s=struct(m=INT, a=INT))
    )
    assert evolved == struct(s=struct(a=INT, m=INT), b=INT, n=STRING)
    assert not needs_rewrite(struct(s=struct(a=INT), b=INT), evolved)


def test_a_not_null_column_stays_not_null() -> None:
    table = StructType([StructField("a", INT, False)])
    assert not evolved_schema(table, struct(a=LONG))["a"].nullable


def test_the_querys_comments_are_taken_and_other_metadata_stays() -> None:
    table = StructType([StructField("a", INT, True, {"comment": "old", "other": 1})])
    query = StructType([StructField("a", INT, True, {"comment": "new"})])
    assert evolved_schema(table, query)["a"].metadata == {"comment": "new", "other": 1}
    assert evolved_schema(table, struct(a=INT))["a"].metadata == {"other": 1}


def test_a_column_given_twice_is_refused_also_inside_an_array() -> None:
    twice = StructType([StructField("b", INT), StructField("B", INT)])
    with pytest.raises(Refused, match=r"xs\.element\.B occurs twice in the query"):
        evolved_schema(struct(xs=ArrayType(struct(b=INT))), struct(xs=ArrayType(twice)))


def test_a_column_without_a_type_is_refused_with_what_to_cast_it_to() -> None:
    with pytest.raises(Refused, match="cast it to int"):
        evolved_schema(struct(a=INT), struct(a=NullType()))


@pytest.mark.parametrize(
    "kind",
    [
        MapType(INT, INT),
        struct(m=MapType(INT, INT)),
        ArrayType(struct(v=VariantType())),
    ],
    ids=str,
)
def test_a_key_that_holds_a_map_or_a_variant_is_refused_while_planning(kind: DataType) -> None:
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.upsert("t", "SELECT 1 AS k", keys=["K"])
    (table,) = pipeline.graph().tables
    with pytest.raises(dp.DatasetError, match="which Spark cannot compare"):
        table_definition(table, None, struct(k=kind), is_full_refresh=False, pipeline="p")
