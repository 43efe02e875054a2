"""Random schema pairs executed on Delta: every value as the plain-Python rules say, or untouched.

Many pairs share a table, each with columns of its own prefix, so that three runs prove a lot.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T

from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines_tests.support import drift_rules as rules
from delta_pipelines_tests.support.pipelines import failure, run_one, scratch, seen, version_of
from delta_pipelines_tests.support.random_schemas import (
    Column,
    Schema,
    changed_schema,
    random_schema,
    random_value,
    struct,
)

KEY = Column("id", "int")
Values = dict[str, Any]


class Pair(NamedTuple):
    """A schema and what it becomes."""

    current: Schema
    query: Schema
    target: Schema | None
    """None when it is refused."""


def pairs(rng: random.Random, kind: str, *, taken: bool) -> Iterator[Pair]:
    """Changed schemas; their columns begin with a prefix of their own."""
    number = 0
    while True:
        current = random_schema(rng, 2)
        query = changed_schema(rng, current, rng.choice([1, 1, 2]))
        if query == current:
            continue
        prefixed = [
            tuple(c._replace(name=f"p{number} {c.name}") for c in s) for s in (current, query)
        ]
        try:
            target = rules.decided(kind, "evolve", *prefixed, full=False)
        except rules.Refuse:
            target = None
        if (target is not None) == taken:
            number += 1
            yield Pair(*prefixed, target)


def some(rng: random.Random, kind: str, count: int, *, taken: bool) -> list[Pair]:
    found = pairs(rng, kind, taken=taken)
    return [next(found) for _ in range(count)]


def joined(schemas: list[Schema]) -> Schema:
    return (KEY, *(column for schema in schemas for column in schema))


def rows_for(rng: random.Random, schema: Schema, keys: range) -> dict[int, Values]:
    return {
        key: {"id": key, **{c.name: random_value(rng, c.type) for c in schema[1:]}} for key in keys
    }


def plain(value: Any) -> Any:
    """A collected value without Spark's classes."""
    if isinstance(value, Row):
        return {name: plain(value[position]) for position, name in enumerate(value.__fields__)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def refresh(spark, schema, kind, columns: Schema, rows: dict[int, Values]):
    pipeline = scratch(schema)

    def query(spark):
        given = struct(columns)
        return spark.createDataFrame([_ordered(given, row) for row in rows.values()], given)

    if kind == "upsert":
        pipeline.upsert("t", keys=["id"])(query)
    else:
        pipeline.materialized_view("t")(query)
    return run_one(pipeline, spark)


def _ordered(kind: T.DataType, value: Any) -> Any:
    """A plain value as `createDataFrame` takes it: structs by position."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return tuple(_ordered(f.dataType, value[f.name]) for f in kind)
    if isinstance(kind, T.ArrayType):
        return [_ordered(kind.elementType, item) for item in value]
    if isinstance(kind, T.MapType):
        return {key: _ordered(kind.valueType, item) for key, item in value.items()}
    return value


def compare(spark, name, pairs: list[Pair], target: Schema, expected: dict[int, Values]):
    """Every pair's columns and values; gives the number of values compared."""
    table = spark.table(name)
    found = {row["id"]: plain(row) for row in table.collect()}
    assert found.keys() == expected.keys()
    assert table.schema == struct(target)
    values = 0
    for pair in pairs:
        for column in pair.target or ():
            for key, row in expected.items():
                assert found[key][column.name] == row[column.name], (pair, key, column)
                values += 1
    return values


def kept(rows: dict[int, Values], has: Schema, target: Schema) -> dict[int, Values]:
    kinds = ("struct", has), ("struct", target)
    return {key: rules.kept_value(row, *kinds) for key, row in rows.items()}


def execute(spark, schema, kind: str, seed: int, count: int, *, merge: bool = False) -> int:
    """Create a table of all current columns, change all at once, compare; gives the values."""
    rng = random.Random(seed)
    chosen = some(rng, kind, count, taken=True)
    current, query = joined([p.current for p in chosen]), joined([p.query for p in chosen])
    target = rules.decided(kind, "evolve", current, query, full=False)
    before, after = rows_for(rng, current, range(1, 4)), rows_for(rng, query, range(3, 5))
    assert refresh(spark, schema, kind, current, before).status == "completed"
    result = refresh(spark, schema, kind, query, after)
    assert (result.status, result.version) == ("completed", 1), result.error
    expected = kept(after, query, target)
    if kind == "upsert":
        expected = kept(before, current, target) | expected
    values = compare(spark, f"{schema}.t", chosen, target, expected)
    if merge:
        # The table is as defined now, so these rows go through MERGE: narrower types, other order.
        again = rows_for(rng, query, range(4, 6))
        assert refresh(spark, schema, kind, query, again).version == 2
        expected |= kept(again, query, target)
        values += compare(spark, f"{schema}.t", chosen, target, expected)
    return values


def refuse(spark, schema, kind: str, seed: int, count: int) -> int:
    """Change one pair's columns at a time; the table must stay as it is."""
    rng = random.Random(seed)
    chosen = some(rng, kind, count, taken=False)
    current = joined([p.current for p in chosen])
    assert refresh(spark, schema, kind, current, rows_for(rng, current, range(1, 3))).version == 0
    before = seen(spark, f"{schema}.t")
    for position, pair in enumerate(chosen):
        others = [p.current for n, p in enumerate(chosen) if n != position]
        query = joined([*others, pair.query])
        error = failure(refresh(spark, schema, kind, query, {}))
        assert isinstance(error, SchemaChangeError if kind == "upsert" else DatasetError), pair
        assert pair.current[0].name.split()[0] in str(error), "it names the column"
        assert version_of(spark, f"{schema}.t") == 0, pair
    assert seen(spark, f"{schema}.t") == before
    return count


@pytest.mark.parametrize(("kind", "count"), [("materialized_view", 70), ("upsert", 60)])
def test_taken_pairs_evolve_exactly_on_delta(spark, schema, record_property, kind, count):
    values = execute(spark, schema, kind, 11, count)
    record_property(
        "proved", f"{count} schema pairs evolved on Delta ({kind}), {values} values, 0 differences"
    )


def test_taken_pairs_merge_exactly_once_the_table_has_evolved(spark, schema, record_property):
    values = execute(spark, schema, "upsert", 13, 10, merge=True)
    record_property("proved", f"10 schema pairs merged on Delta, {values} values, 0 differences")


@pytest.mark.parametrize(("kind", "count"), [("materialized_view", 8), ("upsert", 24)])
def test_refused_pairs_leave_the_table_untouched(spark, schema, record_property, kind, count):
    refuse(spark, schema, kind, 12, count)
    record_property("proved", f"{count} schema pairs refused ({kind}), tables untouched")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_many_more_pairs_on_delta(spark, schema, kind, seed):
    execute(spark, schema, kind, seed, 60, merge=kind == "upsert")
    spark.sql(f"CREATE SCHEMA {schema}_r")
    refuse(spark, f"{schema}_r", kind, seed, 20)
