"""Random schemas for property-based tests: structs, arrays and maps to depth 3."""

from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

INT, LONG, STRING = IntegerType(), LongType(), StringType()


def struct(**columns: DataType) -> StructType:
    """A schema of nullable columns."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


NAMES = ["a", "b", "c", "with space", "d-e"]
COMMENTS = [None, None, "first", "it's"]


@st.composite
def decimals(draw: st.DrawFn) -> DecimalType:
    precision = draw(st.integers(1, 38))
    return DecimalType(precision, draw(st.integers(0, precision)))


atoms = st.one_of(
    st.sampled_from(
        [
            BooleanType(),
            ByteType(),
            ShortType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            StringType(),
            BinaryType(),
            DateType(),
            TimestampType(),
            TimestampNTZType(),
        ]
    ),
    decimals(),
)


def types(depth: int, nullable: st.SearchStrategy[bool]) -> st.SearchStrategy[DataType]:
    """Types nested at most `depth` deep."""
    if depth == 0:
        return atoms
    inner = types(depth - 1, nullable)
    return st.one_of(
        atoms,
        st.builds(ArrayType, inner, nullable),
        st.builds(MapType, atoms, inner, nullable),
        structs(depth - 1, nullable),
    )


def structs(depth: int, nullable: st.SearchStrategy[bool]) -> st.SearchStrategy[StructType]:
    """Structs of one to four columns."""
    comments = st.sampled_from(COMMENTS).map(
        lambda comment: {"comment": comment} if comment else {}
    )
    field = st.builds(
        StructField, st.sampled_from(NAMES), types(depth, nullable), nullable, comments
    )
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name).map(StructType)


schemas = structs(2, st.booleans())
"""Any schema, to depth 3."""

query_schemas = structs(2, st.just(True))
"""Schemas as a query gives them to a table: all nullable."""
