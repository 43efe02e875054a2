"""Random nested types: rows get the table's names, order and types at every depth.

A value is compared in a canonical form that knows names and no positions: a struct is a sorted
tuple of (lower-case name, value) pairs, a map a frozenset of entries.
"""

import datetime as dt
import random
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

from delta_pipelines.delta.write.row_casts import conform

TYPES = 120
ROWS = 4
DAYS = [dt.date(2024, 1, day) for day in range(1, 20)]
NAMES = ["a", "Bb", "c d", "e.f", "Key", "value", "element", "x_0", "ünï"]
ATOMS = [
    (T.IntegerType(), T.LongType()),
    (T.IntegerType(), T.DecimalType(12, 2)),
    (T.StringType(), T.StringType()),
    (T.DateType(), T.DateType()),
    (T.FloatType(), T.DoubleType()),
]


def table_and_query(
    rng: random.Random, depth: int, *, key: bool = False
) -> tuple[T.DataType, T.DataType]:
    """A table's type, and the same with other order, spelling and narrower types.

    Python has no dictionaries with lists or dictionaries as keys.
    """
    shapes = ["struct", "struct", *([] if key else ["array", "map", "map"])]
    match rng.choice(shapes) if depth else "atom":
        case "struct":
            names = rng.sample(NAMES, rng.randint(1, 4))
            pairs = [(name, *table_and_query(rng, depth - 1, key=key)) for name in names]
            table = T.StructType([T.StructField(name, wide) for name, wide, _ in pairs])
            rng.shuffle(pairs)
            spelled = [rng.choice([str, str.upper, str.lower, str.swapcase]) for _ in pairs]
            query = T.StructType(
                [
                    T.StructField(as_(name), narrow)
                    for as_, (name, _, narrow) in zip(spelled, pairs, strict=True)
                ]
            )
            return table, query
        case "array":
            wide, narrow = table_and_query(rng, depth - 1, key=key)
            return T.ArrayType(wide), T.ArrayType(narrow)
        case "map":
            keys = table_and_query(rng, depth - 1, key=True)
            values = table_and_query(rng, depth - 1)
            return T.MapType(keys[0], values[0]), T.MapType(keys[1], values[1])
        case _:
            narrow, wide = rng.choice(ATOMS)
            return wide, rng.choice([wide, narrow])


def canonical_value(rng: random.Random, kind: T.DataType, *, null: float = 0.15) -> Any:
    if rng.random() < null:
        return None
    match kind:
        case T.StructType():
            pairs = [(f.name.lower(), canonical_value(rng, f.dataType)) for f in kind]
            return tuple(sorted(pairs, key=lambda pair: pair[0]))
        case T.ArrayType():
            return tuple(canonical_value(rng, kind.elementType) for _ in range(rng.randint(0, 3)))
        case T.MapType():
            keys = {canonical_value(rng, kind.keyType, null=0) for _ in range(rng.randint(0, 3))}
            return frozenset((key, canonical_value(rng, kind.valueType)) for key in keys)
        case T.StringType():
            return rng.choice(["", "x", "Y", "null"])
        case T.DateType():
            return rng.choice(DAYS)
    return rng.randint(-5, 5)


def given(kind: T.DataType, value: Any) -> Any:
    """A canonical value as `createDataFrame` takes it: structs by position."""
    if value is None:
        return None
    match kind:
        case T.StructType():
            by_name = dict(value)
            return tuple(given(f.dataType, by_name[f.name.lower()]) for f in kind)
        case T.ArrayType():
            return [given(kind.elementType, item) for item in value]
        case T.MapType():
            return {_hashable(given(kind.keyType, k)): given(kind.valueType, v) for k, v in value}
        case T.FloatType() | T.DoubleType():
            return float(value)
        case T.DecimalType():
            return Decimal(value)
    return value


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value


def canonical(kind: T.DataType, value: Any) -> Any:
    """A collected value in canonical form, names from its type."""
    if value is None:
        return None
    match kind:
        case T.StructType():
            pairs = [
                (f.name.lower(), canonical(f.dataType, v)) for f, v in zip(kind, value, strict=True)
            ]
            return tuple(sorted(pairs, key=lambda pair: pair[0]))
        case T.ArrayType():
            return tuple(canonical(kind.elementType, item) for item in value)
        case T.MapType():
            return frozenset(
                (canonical(kind.keyType, k), canonical(kind.valueType, v)) for k, v in value.items()
            )
    return value


def test_random_types_to_depth_three_are_conformed_by_name(spark, record_property):
    rng, values = random.Random(50), 0
    for first in range(0, TYPES, 40):
        pairs = [(f"t{first + n} Ü", *table_and_query(rng, 3)) for n in range(40)]
        table = T.StructType([T.StructField(name, wide) for name, wide, _ in pairs])
        rows = [[canonical_value(rng, wide) for _, wide, _ in pairs] for _ in range(ROWS)]
        order = rng.sample(range(len(pairs)), len(pairs))
        query = T.StructType(
            [T.StructField(pairs[index][0].swapcase(), pairs[index][2]) for index in order]
        )
        feed = [tuple(given(pairs[index][2], row[index]) for index in order) for row in rows]
        frame = conform(spark.createDataFrame(feed, query), table, "t")
        assert frame.schema.simpleString() == table.simpleString()
        assert conform(frame, table, "t") is frame, "once is enough"
        for row, found in zip(rows, frame.collect(), strict=True):
            for (_, wide, narrow), value, got in zip(pairs, row, found, strict=True):
                assert canonical(wide, got) == value, (wide, narrow)
                values += 1
    record_property("proved", f"{TYPES} nested types conformed, {values} values, 0 differences")
