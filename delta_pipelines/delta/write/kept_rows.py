"""Check the rows that a table keeps against rules that are new: NOT NULL and CHECK constraints.

Delta checks the rows that are written. A commit of a new rule that keeps the old files would make
Delta believe that their rows obey it.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.write.metadata import StoredMetadata, WantedMetadata
from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.schema_mapping import column_named, logical_schema

_SAMPLES = 3
_LONGEST = 200
"""Characters of a row that an error shows."""


def has_new_rules(stored: StoredMetadata, wanted: WantedMetadata) -> bool:
    """True when old rows may break the wanted metadata."""
    return any(_new_rules(stored, wanted))


def check_kept_rows(
    rows: DataFrame, stored: StoredMetadata, wanted: WantedMetadata, dataset: str
) -> None:
    """Refuse new rules that rows of the table break; one Spark job, two when rows break one.

    Args:
        stored: The table's metadata.
        wanted: The metadata to write.

    Raises:
        SchemaChangeError: Names each broken rule with the number of rows and samples.
    """
    rules = list(_new_rules(stored, wanted))
    evolved = rows.to(nullable(logical_schema(wanted.schema), only_comments=True))
    counted = evolved.agg(*(F.count_if(breaks) for _, breaks in rules)).first()
    assert counted is not None
    broken = [
        f"{rule} is broken by {count} of its rows, such as {_samples(evolved.where(breaks))}"
        for (rule, breaks), count in zip(rules, counted, strict=True)
        if count
    ]
    if broken:
        raise SchemaChangeError(
            f"the table keeps its rows, and {'; '.join(broken)}. Nothing was written. Ways out: "
            f"correct these rows, take the rule out of the declaration, or refresh the table "
            f"fully.",
            dataset=dataset,
        )


def _new_rules(stored: StoredMetadata, wanted: WantedMetadata) -> Iterator[tuple[str, Column]]:
    """Each new rule, and where a row breaks it (never NULL)."""
    for column in wanted.schema.fields:
        before = column_named(stored.schema, column.name)
        if not column.nullable and (before is None or before.nullable):
            yield f"NOT NULL of column {column.name}", F.col(quoted(column.name)).isNull()
    has = constraints_of(stored.configuration)
    for name, condition in constraints_of(wanted.configuration).items():
        if has.get(name) != condition:
            # As Delta has it: a condition that is NULL is broken too.
            breaks = ~F.coalesce(F.expr(condition), F.lit(False))
            yield f"CHECK constraint {name} ({condition})", breaks


def _samples(broken: DataFrame) -> str:
    rows = (str(row.asDict(recursive=True)) for row in broken.limit(_SAMPLES).collect())
    return ", ".join(row if len(row) <= _LONGEST else f"{row[:_LONGEST]}..." for row in rows)
