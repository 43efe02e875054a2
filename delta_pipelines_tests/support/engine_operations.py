"""Every operation of the engine on a table or view of its own, to be made again and again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import delta_pipelines as dp
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY, EPOCH_KEY, REPLACED_KEY
from delta_pipelines_tests.support.pipelines import Feed, Seen, merged, mirror, seen, seen_view

FEED = "id INT, v STRING"
ALL = "SELECT * FROM {0}"
LATEST = "SELECT max(id) AS id, v FROM {0} GROUP BY v"
Declare = Callable[[dp.Pipeline, str, int], None]


class Values(Feed):
    """Rows that stand in the query itself: no job makes them, and the same are no change."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame."""
        rows = ", ".join(f"({', '.join(map(literal, row))})" for row in self.rows)
        fields = StructType.fromDDL(self.columns).fields
        typed = (
            f"CAST(c{n} AS {f.dataType.simpleString()}) AS {f.name}" for n, f in enumerate(fields)
        )
        names = ", ".join(f"c{n}" for n in range(len(fields)))
        return spark.sql(f"SELECT {', '.join(typed)} FROM VALUES {rows} AS v({names})")


def literal(value: object) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"struct({', '.join(map(literal, value))})"
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class Operation:
    """A change of the dataset that is called like the operation.

    Args:
        name: Name of the operation and of its dataset.
        declare: Declares the dataset `name` for change number n (from 0), in a pipeline.
        prepare: Changes the outside world before change number n: schema, then n.
        asks: What the run is asked for besides a refresh.
        look: What a user sees of the dataset.
        mirrors: Query of its rows, each once, and columns; `{0}` is its landing table.
        repeats: True when change n + 2 ends as change n did, but for what it mirrors.
    """

    name: str
    declare: Declare
    prepare: Callable[[SparkSession, str, int], None] = lambda spark, schema, number: None
    asks: str | None = None
    look: Callable[[SparkSession, str], Seen | None] = seen
    mirrors: str | None = None
    repeats: bool = True

    @property
    def group(self) -> str:
        """Operations that are tested together."""
        if "stream" in self.name or self.name.startswith("reset"):
            return "streams"
        return "upserts" if "upsert" in self.name or self.name.startswith("merge") else "views"

    def landed(self, before: Seen | None, now: Seen | None) -> bool:
        """True when the request for a stream is in the table, and is not repeated."""
        if self.asks is None or before is None or now is None:
            return False
        ids = CHECKPOINTS_KEY in before.properties, CHECKPOINTS_KEY in now.properties
        return all(ids) and before.properties[CHECKPOINTS_KEY] != now.properties[CHECKPOINTS_KEY]

    def seen(self, spark: SparkSession, schema: str, name: str | None = None) -> Seen | None:
        """What a user sees of the dataset, and how its rows differ from those that it mirrors."""
        found = self.look(spark, f"{schema}.{name or self.name}")
        if found is None or self.mirrors is None:
            return found
        source = spark.sql(self.mirrors.format(f"{schema}.{self.name}_landing"))
        same = [f.simpleString() for f in source.schema] == [f.simpleString() for f in found.schema]
        return replace(
            found,
            rows=difference(source, found),
            schema=StructType() if same else found.schema,
        )


def difference(source: DataFrame, found: Seen) -> Any:
    """Rows that a table lacks and rows that it has too often, of those that it mirrors."""
    expected = [tuple(row) for row in source.collect()]
    lacks, more = list(expected), []
    for row in found.rows:
        if row in lacks:
            lacks.remove(row)
        else:
            more.append(row)
    return [*(("lacks", *row) for row in lacks), *(("more", *row) for row in more)]


def comparable(look: Seen | None) -> Seen | None:
    """What a rerun and a clean run have in common: all but generated ids and times."""
    if look is None:
        return None
    generated = (EPOCH_KEY, REPLACED_KEY)
    properties = {key: value for key, value in look.properties.items() if key not in generated}
    if CHECKPOINTS_KEY in properties:
        flows: Mapping[str, Any] = json.loads(properties[CHECKPOINTS_KEY])
        properties[CHECKPOINTS_KEY] = ", ".join(sorted(flows))
    return replace(look.content, properties=properties)


def dropped(kind: str, name: str) -> Callable[[SparkSession, str, int], None]:
    def prepare(spark: SparkSession, schema: str, number: int) -> None:
        spark.sql(f"DROP {kind} IF EXISTS {schema}.{name}")

    return prepare


def landed(name: str, *, again: bool = True, wider: bool = False) -> Any:
    """Appends rows to a Delta table of others: once, or before every change."""

    def prepare(spark: SparkSession, schema: str, number: int) -> None:
        if number and not again:
            return
        rows = [(2 * number + 1, f"v{number}"), (2 * number + 2, "same")]
        frame = Values(FEED, *rows).frame(spark).coalesce(1)
        if wider:
            frame = frame.withColumn(f"c{number}", F.lit(number))
        writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.saveAsTable(f"{schema}.{name}_landing")

    return prepare


def both(*prepares: Any) -> Any:
    def prepare(spark: SparkSession, schema: str, number: int) -> None:
        for each in prepares:
            each(spark, schema, number)

    return prepare


def of_feed(kind: Any, row: Callable[[int], list[Any]], columns: Any = FEED, **options: Any) -> Any:
    """A view or an upsert of rows that depend on the change's number."""

    def declare(pipeline: dp.Pipeline, name: str, number: int) -> None:
        given = {k: v(number) if callable(v) else v for k, v in options.items()}
        ddl = columns(number) if callable(columns) else columns
        kind(pipeline, name, Values(ddl, *row(number)), **given)

    return declare


def streamed(**options: Any) -> Declare:
    """A streaming table with all rows of a landing table."""

    def declare(pipeline: dp.Pipeline, name: str, number: int) -> None:
        given = {k: v(number) if callable(v) else v for k, v in options.items()}
        source = f"{pipeline.schema}.{name}_landing"
        pipeline.source(source)

        @pipeline.streaming_table(name, inputs={"new": source}, **given)
        def rows(new: DataFrame) -> DataFrame:
            return new

    return declare


def of_two_flows(pipeline: dp.Pipeline, name: str, number: int) -> None:
    source = f"{pipeline.schema}.{name}_landing"
    pipeline.source(source)
    pipeline.create_streaming_table(name, comment="of two")

    @pipeline.append_flow(target=name, name=f"{name}_odd", inputs={"new": source})
    def odd(new: DataFrame) -> DataFrame:
        return new.where("id % 2 = 1")

    @pipeline.append_flow(target=name, name=f"{name}_even", inputs={"new": source})
    def even(new: DataFrame) -> DataFrame:
        return new.where("id % 2 = 0")


def in_batches(pipeline: dp.Pipeline, name: str, number: int) -> None:
    """A streaming table with a batch for every commit of its source."""
    source = f"{pipeline.schema}.{name}_landing"

    @pipeline.streaming_table(name)
    def rows(spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", "1").table(source)


def stream_merged(pipeline: dp.Pipeline, name: str, number: int) -> None:
    source = f"{pipeline.schema}.{name}_landing"
    pipeline.source(source)

    @pipeline.upsert(name, keys=["v"], sequence_by="id", inputs={"new": dp.Stream(source)})
    def rows(new: DataFrame) -> DataFrame:
        return new


def published(pipeline: dp.Pipeline, name: str, number: int) -> None:
    pipeline.view(
        name,
        f"SELECT 1 AS c{number % 2}",
        comment=f"n{number % 2}",
        table_properties={"k": str(number % 2)},
    )


def parity(number: int) -> list[Any]:
    return [(1, f"v{number % 2}"), (2, "same")]


def kinds(number: int) -> list[Any]:
    return [(1, f"v{number % 2}"), (3, "new" if number % 2 else "gone")]


def drifting(number: int) -> str:
    return ", ".join(["id INT", *(f"c{n} STRING" for n in range(number + 1))])


def drifted(number: int) -> list[Any]:
    values = [f"v{number}"] * (number + 1)
    return [(1, *values), (10 + number, *values)]


TWO_SCHEMAS = ("id INT, v STRING", "id BIGINT, w STRUCT<a: STRING>")


def two_schemas(number: int) -> list[Any]:
    return [(1, ("a",) if number % 2 else "a")]


def properties(number: int) -> dict[str, str]:
    return {"k": str(number % 2), f"p{number % 2}": "x"}


TWO = dp.StaticPartitions("id", ["1", "2"])
MANY = dp.StaticPartitions("id", [str(number) for number in range(1, 102)])
"""One more than a commit replaces."""


def far_apart(number: int) -> list[Any]:
    """Rows of the first and of the last partition."""
    return [(1, f"v{number % 2}"), (101, f"w{number % 2}")]


def another_writer(spark: SparkSession, schema: str, number: int) -> None:
    """Puts a row of another partition into the files of the table, once."""
    for name in ("partition_kept", "partition_kept_clean") if number == 1 else ():
        spark.sql(f"INSERT INTO {schema}.{name} VALUES (7, 'kept')")
        spark.sql(f"OPTIMIZE {schema}.{name}")


WITHOUT_VECTORS = {"delta.enableDeletionVectors": "false"}
UPSERT: dict[str, Any] = {"keys": ["id"]}
MADE: dict[str, Any] = {"comment": "made", "table_properties": {"k": "v"}}

OPERATIONS = [
    Operation(
        "create_view",
        of_feed(mirror, parity, **MADE, partition_cols=["v"]),
        dropped("TABLE", "create_view"),
    ),
    Operation(
        "create_upsert",
        of_feed(merged, parity, **UPSERT, **MADE),
        dropped("TABLE", "create_upsert"),
    ),
    Operation(
        "create_stream",
        streamed(**MADE),
        both(dropped("TABLE", "create_stream"), landed("create_stream", again=False)),
        mirrors=ALL,
    ),
    Operation(
        "create_persisted",
        published,
        dropped("VIEW", "create_persisted"),
        look=seen_view,
    ),
    Operation("refresh_rows", of_feed(mirror, parity)),
    Operation(
        "alter_columns", of_feed(mirror, two_schemas, lambda number: TWO_SCHEMAS[number % 2])
    ),
    Operation(
        "alter_about",
        of_feed(
            mirror, parity, comment=lambda number: f"n{number % 2}", table_properties=properties
        ),
    ),
    Operation(
        "alter_layout",
        of_feed(mirror, parity, partition_cols=lambda number: ["v"] if number % 2 else []),
    ),
    Operation(
        "alter_stream",
        streamed(comment=lambda number: f"n{number % 2}", table_properties=properties),
        landed("alter_stream"),
        mirrors=ALL,
    ),
    Operation(
        "full_view",
        of_feed(
            mirror,
            two_schemas,
            lambda number: TWO_SCHEMAS[number % 2],
            table_properties=properties,
        ),
        asks="full_refresh",
    ),
    Operation(
        "full_upsert",
        of_feed(
            merged,
            two_schemas,
            lambda number: TWO_SCHEMAS[number % 2],
            **UPSERT,
            comment=lambda number: f"n{number % 2}",
        ),
        asks="full_refresh",
    ),
    Operation(
        "full_stream",
        streamed(comment=lambda number: f"n{number % 2}"),
        landed("full_stream"),
        asks="full_refresh",
        mirrors=ALL,
    ),
    Operation("partition_rows", of_feed(mirror, parity, partitions=TWO, partition_cols=["id"])),
    Operation(
        "partition_kept",
        of_feed(mirror, parity, partitions=TWO),
        another_writer,
        repeats=False,
    ),
    Operation("partition_commits", of_feed(mirror, far_apart, partitions=MANY)),
    Operation("partition_full", of_feed(mirror, parity, partitions=TWO), asks="full_refresh"),
    Operation(
        "partition_drift",
        of_feed(mirror, drifted, drifting, partitions=MANY),
        repeats=False,
    ),
    Operation("merge_rows", of_feed(merged, parity, **UPSERT)),
    Operation("merge_deletes", of_feed(merged, kinds, **UPSERT, deletes_when="v = 'gone'")),
    Operation(
        "merge_plain",
        of_feed(merged, parity, **UPSERT, table_properties=WITHOUT_VECTORS),
    ),
    Operation(
        "merge_drift",
        of_feed(
            merged,
            drifted,
            drifting,
            **UPSERT,
            comment=lambda number: f"n{number}",
            table_properties=lambda number: {"k": str(number)},
        ),
        repeats=False,
    ),
    Operation("stream_append", streamed(), landed("stream_append"), mirrors=ALL),
    Operation(
        "stream_drift",
        streamed(),
        landed("stream_drift", wider=True),
        mirrors=ALL,
    ),
    Operation(
        "stream_batches",
        in_batches,
        both(landed("stream_batches"), landed("stream_batches")),
        mirrors=ALL,
    ),
    Operation("stream_flows", of_two_flows, landed("stream_flows"), mirrors=ALL),
    Operation("stream_merge", stream_merged, landed("stream_merge"), mirrors=LATEST),
    Operation(
        "reset_merge",
        stream_merged,
        landed("reset_merge"),
        asks="reset_checkpoints",
        mirrors=LATEST,
    ),
    Operation(
        "full_stream_merge",
        stream_merged,
        landed("full_stream_merge"),
        asks="full_refresh",
        mirrors=LATEST,
    ),
    Operation("publish_view", published, look=seen_view),
]
