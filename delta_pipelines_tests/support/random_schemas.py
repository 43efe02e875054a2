"""Random schemas and values in plain Python, for tests of schema drift.

A type is a name (`int`), or a tuple: `("decimal", precision, scale)`, `("array", type)`,
`("map", key, value)`, `("struct", (column, ...))`. Nothing here uses the package.
"""

import datetime as dt
import random
import string
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import types as T

PlainType = Any


class Column(NamedTuple):
    """One column of a plain schema."""

    name: str
    type: PlainType
    nullable: bool = True
    comment: str | None = None


Schema = tuple[Column, ...]

ATOMS = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "void": T.NullType(),
}
WIDER = {
    "tinyint": ["smallint", "int", "bigint", "double", ("decimal", 3, 0)],
    "smallint": ["int", "bigint", "double", ("decimal", 7, 2)],
    "int": ["bigint", "double", ("decimal", 10, 0), ("decimal", 9, 0)],
    "bigint": [("decimal", 20, 0), ("decimal", 38, 10), "double"],
    "float": ["double"],
    "date": ["timestamp_ntz", "timestamp"],
}
BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
CHANGES = (
    *("drop", "rename", "case", "type", "move", "twin", "void"),
    *("add", "add", "add", "wider", "wider", "comment", "comment"),
)
NAMES = ["a", "b", "Cc", "with space", "d.e", "x,y", "ünï", "q;(=)", "_z", "select"]


def to_spark(plain: PlainType) -> T.DataType:
    """A plain type as Spark's."""
    if isinstance(plain, str):
        return ATOMS[plain]
    match plain:
        case ("decimal", precision, scale):
            return T.DecimalType(precision, scale)
        case ("array", element):
            return T.ArrayType(to_spark(element))
        case ("map", key, value):
            return T.MapType(to_spark(key), to_spark(value))
        case ("struct", columns):
            return struct(columns)
    raise ValueError(plain)


def struct(schema: Schema) -> T.StructType:
    """A plain schema as Spark's."""
    return T.StructType(
        [
            T.StructField(
                c.name, to_spark(c.type), c.nullable, {"comment": c.comment} if c.comment else {}
            )
            for c in schema
        ]
    )


def random_type(rng: random.Random, depth: int) -> PlainType:
    """A type nested at most `depth` deep."""
    shape = rng.choice(["atom", "atom", "atom", "array", "map", "struct"]) if depth else "atom"
    if shape == "array":
        return ("array", random_type(rng, depth - 1))
    if shape == "map":
        return ("map", rng.choice(["int", "string", "date"]), random_type(rng, depth - 1))
    if shape == "struct":
        return ("struct", random_schema(rng, depth - 1))
    if rng.random() < 0.25:
        precision = rng.randint(1, 20)
        return ("decimal", precision, rng.randint(0, precision))
    return rng.choice([name for name in ATOMS if name != "void"])


def random_schema(rng: random.Random, depth: int) -> Schema:
    """One to four columns."""
    names = rng.sample(NAMES, rng.randint(1, 4))
    return tuple(
        Column(name, random_type(rng, depth), True, rng.choice([None, None, "about it"]))
        for name in names
    )


def changed_schema(rng: random.Random, schema: Schema, changes: int) -> Schema:
    """The schema after some random changes, at any depth."""
    for _ in range(changes):
        schema = _changed(rng, schema)
    return schema


def _changed(rng: random.Random, schema: Schema) -> Schema:
    columns = list(schema)
    place = rng.randrange(len(columns))
    column = columns[place]
    inside = _changed_inside(rng, column.type) if rng.random() < 0.5 else None
    if inside is not None:
        columns[place] = column._replace(type=inside)
        return tuple(columns)
    match rng.choice(CHANGES):
        case "add":
            free = [n for n in (*NAMES, "new") if n not in {c.name for c in columns}]
            new = Column(rng.choice(free), random_type(rng, 1))
            columns.insert(rng.randint(0, len(columns)), new)
        case "drop" if len(columns) > 1:
            del columns[place]
        case "rename":
            columns[place] = column._replace(name=column.name + " renamed")
        case "case":
            columns[place] = column._replace(name=column.name.swapcase())
        case "type":
            columns[place] = column._replace(type=random_type(rng, 1))
        case "wider":
            columns[place] = column._replace(type=wider_type(rng, column.type))
        case "move":
            rng.shuffle(columns)
        case "comment":
            columns[place] = column._replace(comment=rng.choice([None, "new text"]))
        case "twin" if column.name.swapcase() != column.name:
            columns.append(column._replace(name=column.name.swapcase()))
        case "void" if rng.random() < 0.3:
            columns[place] = column._replace(type="void")
    return tuple(columns)


def _changed_inside(rng: random.Random, plain: PlainType) -> PlainType | None:
    match plain:
        case ("struct", columns):
            return ("struct", _changed(rng, columns))
        case ("array", element):
            return ("array", _changed_inside(rng, element) or wider_type(rng, element))
        case ("map", key, value) if rng.random() < 0.7:
            return ("map", key, _changed_inside(rng, value) or wider_type(rng, value))
        case ("map", key, value):
            return ("map", wider_type(rng, key), value)
    return None


def wider_type(rng: random.Random, plain: PlainType) -> PlainType:
    """Mostly a type that holds more, where there is one."""
    match plain:
        case ("decimal", precision, scale):
            more = rng.randint(0, 3)
            return ("decimal", precision + more + rng.randint(0, 3), scale + more)
        case str():
            return rng.choice(WIDER.get(plain, [plain]))
    return plain


def random_value(rng: random.Random, plain: PlainType, *, null: float = 0.15) -> Any:
    """A value of a type as `createDataFrame` takes it; a struct is a dict."""
    if plain == "void" or rng.random() < null:
        return None
    if isinstance(plain, tuple):
        return _random_nested(rng, plain)
    if plain in BITS:
        edge = 2 ** BITS[plain]
        return rng.choice([-edge, edge - 1, rng.randint(-99, 99)])
    day = dt.date(rng.randint(1600, 2300), rng.randint(1, 12), rng.randint(1, 28))
    midnight = dt.datetime(day.year % 100 + 1970, day.month, day.day)
    values = {
        "boolean": rng.random() < 0.5,
        "float": rng.randint(-1000, 1000) / 8,
        "double": rng.random(),
        "string": "".join(rng.choices(string.ascii_letters + "ü'`\\ ", k=4)),
        "binary": rng.randbytes(3),
        "date": day,
        "timestamp": midnight + dt.timedelta(microseconds=rng.randrange(10**11)),
        "timestamp_ntz": midnight + dt.timedelta(microseconds=rng.randrange(10**11)),
    }
    return values[plain]


def _random_nested(rng: random.Random, plain: tuple[Any, ...]) -> Any:
    match plain:
        case ("decimal", precision, scale):
            return Decimal(rng.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale)
        case ("array", element):
            return [random_value(rng, element) for _ in range(rng.randint(0, 2))]
        case ("map", key, value):
            keys = [random_value(rng, key, null=0) for _ in range(rng.randint(0, 2))]
            return {k: random_value(rng, value) for k in keys}
        case ("struct", columns):
            return {c.name: random_value(rng, c.type) for c in columns}
    raise ValueError(plain)
