"""Check the keys of an upsert's source (NULL, ambiguous), and keep the newest row of each key."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import or_

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delta_pipelines.model.balanced_fold import balanced
from delta_pipelines.model.column_types import holds
from delta_pipelines.model.identifiers import quoted

SAMPLES = 5
"""Number of keys that an error shows."""

Key = tuple[object, ...]

_NTH, _SEQUENCE, _CONTENT, _ROWS, _LATEST = (
    f"__dp_{n}" for n in ("nth", "sequence", "content", "rows", "latest")
)


@dataclass(frozen=True)
class KeyProblems:
    """Problems with the keys of a source.

    Args:
        keys: The key columns.
        sequence_by: The column that orders rows of one key, if any.
        rows: Number of rows in the source.
        null_keys: Number of rows with a NULL in a key column.
        duplicate_keys: Number of ambiguous keys without a NULL. Without `sequence_by`: keys of
            several rows. With it: keys that have different rows at their greatest sequence.
        null_samples: Up to five keys with a NULL.
        duplicate_samples: Up to five ambiguous keys, the most frequent first.
    """

    keys: tuple[str, ...]
    sequence_by: str | None
    rows: int
    null_keys: int = 0
    duplicate_keys: int = 0
    null_samples: tuple[Key, ...] = ()
    duplicate_samples: tuple[Key, ...] = ()

    def __bool__(self) -> bool:
        """True when there is a problem."""
        return bool(self.null_keys or self.duplicate_keys)

    def __str__(self) -> str:
        """The problems as sentences; empty when there are none."""
        sentences = []
        if self.null_keys:
            sentences.append(
                f"{_count(self.null_keys, 'row')} of {self.rows:,} "
                f"{_has(self.null_keys)} NULL in a key column, for example "
                f"{render_keys(self.keys, self.null_samples)}; filter them out or fill the key."
            )
        if self.duplicate_keys:
            what = (
                f"rows that differ at the same greatest {self.sequence_by}"
                if self.sequence_by
                else "more than one row"
            )
            remedy = (
                "use a sequence_by column that orders them"
                if self.sequence_by
                else "name a sequence_by column or keep one row per key"
            )
            sentences.append(
                f"{_count(self.duplicate_keys, 'key')} {_has(self.duplicate_keys)} {what}, "
                f"for example {render_keys(self.keys, self.duplicate_samples)}; {remedy}."
            )
        return " ".join(sentences)


def newest_per_key(source: DataFrame, keys: Sequence[str], sequence_by: str | None) -> DataFrame:
    """Keep one row per key: the one with the greatest sequence.

    Args:
        source: Rows with the key columns.
        keys: Names of top-level columns; any characters. NULL counts as a value.
        sequence_by: Name of a top-level column; NULL is less than everything. Of rows with an
            equal sequence, any one is kept, so check `key_problems` first. None returns the
            source as it is.

    Example:
        >>> rows = spark.createDataFrame([("LHR", 1, "a"), ("LHR", 2, "b")], ["icao", "n", "v"])
        >>> newest_per_key(rows, ["icao"], "n").collect()
        [Row(icao='LHR', n=2, v='b')]
    """
    if sequence_by is None:
        return source
    newest_first = Window.partitionBy(*map(_column, keys)).orderBy(
        _column(sequence_by).desc_nulls_last()
    )
    numbered = source.withColumn(_NTH, F.row_number().over(newest_first))
    return numbered.where(F.col(_NTH) == 1).drop(_NTH)


def key_problems(source: DataFrame, keys: Sequence[str], sequence_by: str | None) -> KeyProblems:
    """Count NULL and ambiguous keys in one Spark job.

    Args:
        source: Rows with the key columns.
        keys: Names of top-level columns; any characters and any type that can be grouped by.
        sequence_by: Name of the top-level column that decides: the greatest value wins. With it,
            rows that are equal in every column are not a problem; without it, any second row of
            a key is.

    Example:
        >>> rows = spark.createDataFrame([("LHR", 1), ("LHR", 2), (None, 3)], "icao string, n int")
        >>> str(key_problems(rows, ["icao"], None))[:54]
        "1 row of 3 has NULL in a key column, for example icao="
    """
    columns = [_column(key) for key in keys]
    grouping = [column.alias(f"__dp_key_{index}") for index, column in enumerate(columns)]
    names = [f"__dp_key_{index}" for index in range(len(keys))]
    per_key = (
        _per_key(source, grouping, names)
        if sequence_by is None
        else _per_sequenced_key(source, grouping, names, keys, sequence_by)
    )
    missing = balanced([F.col(name).isNull() for name in names], or_)
    ambiguous = ~missing & (F.col(_LATEST) > 1)
    key = F.struct(*names)
    row = per_key.agg(
        F.sum(_ROWS).alias("rows"),
        F.sum(F.when(missing, F.col(_ROWS))).alias("null_keys"),
        F.count_if(ambiguous).alias("duplicate_keys"),
        _most_frequent(key, missing).alias("null_samples"),
        _most_frequent(key, ambiguous).alias("duplicate_samples"),
    ).collect()[0]
    return KeyProblems(
        keys=tuple(keys),
        sequence_by=sequence_by,
        rows=row["rows"] or 0,
        null_keys=row["null_keys"] or 0,
        duplicate_keys=row["duplicate_keys"],
        null_samples=_samples(row["null_samples"]),
        duplicate_samples=_samples(row["duplicate_samples"]),
    )


def render_keys(keys: Sequence[str], samples: Sequence[Key]) -> str:
    r"""Show sample keys in one line.

    Example:
        >>> render_keys(["icao", "day"], [("LHR", None), (b"\x01", 2)])
        "(icao='LHR', day=NULL), (icao=0x01, day=2)"
    """
    shown = []
    for sample in samples:
        pairs = [f"{key}={_render(value)}" for key, value in zip(keys, sample, strict=True)]
        shown.append(pairs[0] if len(pairs) == 1 else f"({', '.join(pairs)})")
    return ", ".join(shown)


def _per_key(source: DataFrame, grouping: list[Column], names: list[str]) -> DataFrame:
    counted = source.select(*grouping).groupBy(*names).agg(F.count(F.lit(1)).alias(_ROWS))
    return counted.withColumn(_LATEST, F.col(_ROWS))


def _per_sequenced_key(
    source: DataFrame, grouping: list[Column], names: list[str], keys: Sequence[str], sequence: str
) -> DataFrame:
    named = {name.lower() for name in (*keys, sequence)}
    content = [_groupable(f) for f in source.schema if f.name.lower() not in named]
    rows = source.select(
        *grouping,
        _column(sequence).alias(_SEQUENCE),
        F.struct(*content, F.lit(0).alias("__dp_none")).alias(_CONTENT),
    )
    # One shuffle by key serves all three groupings, because each includes the key.
    return (
        rows.repartition(*names)
        .groupBy(*names, _SEQUENCE, _CONTENT)
        .agg(F.count(F.lit(1)).alias(_ROWS))
        .groupBy(*names, _SEQUENCE)
        .agg(F.sum(_ROWS).alias(_ROWS), F.count(F.lit(1)).alias(_LATEST))
        .groupBy(*names)
        .agg(
            F.sum(_ROWS).alias(_ROWS),
            F.max_by(_LATEST, F.struct(F.col(_SEQUENCE).isNotNull(), _SEQUENCE)).alias(_LATEST),
        )
    )


def _groupable(field: T.StructField) -> Column:
    column = _column(field.name)
    if holds(field.dataType, (T.MapType, T.VariantType)):
        # Such values cannot be grouped by. JSON would drop microseconds by default.
        options = {
            "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
            "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
            "ignoreNullFields": "false",
        }
        column = F.to_json(F.struct(column.alias("v")), options)
    return column.alias(field.name)


def _most_frequent(key: Column, chosen: Column) -> Column:
    return F.max_by(key, F.when(chosen, F.col(_ROWS)), SAMPLES)


def _samples(rows: Sequence[Row] | None) -> tuple[Key, ...]:
    return tuple(tuple(row) for row in rows or ())


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _render(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bytes() | bytearray():
            return f"0x{value.hex()}"
        case Row():
            fields = zip(value.__fields__, value, strict=True)
            return f"({', '.join(f'{name}={_render(item)}' for name, item in fields)})"
        case _:
            return repr(value) if isinstance(value, str) else str(value)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _has(number: int) -> str:
    return "has" if number == 1 else "have"
