"""Rules that were set on a table itself: CHECK constraints, generated columns, lengths. Pure.

A refresh keeps them where it can, and Delta enforces them. When a schema change would break a
rule, the change is refused or the plan has a note about it.
"""

import re
from collections.abc import Mapping

import sqlglot
from pyspark.sql.types import StructField, StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from delta_pipelines.model.column_types import DECLARED_TYPE
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.schema_mapping import DEFAULT, GENERATED, column_named, is_identity
from delta_pipelines.planning.schema.schema_evolution import Refused, evolved_schema

_IDENTITY = "delta.identity.allowExplicitInsert"
_CHAR = re.compile(r"(?<!var)char\(")


def broken_constraints(
    properties: Mapping[str, str], current: StructType, target: StructType
) -> list[str]:
    """Find CHECK constraints on a column that is dropped or gets a type that holds fewer values.

    Delta reads a missing column as NULL there, so the constraint would refuse every row, or none.

    Args:
        properties: The table's properties after the refresh.

    Returns:
        One sentence per constraint, with what to do.
    """
    sentences = []
    for name, text in constraints_of(properties).items():
        lost = [c for c in columns_read(text) if _loses(c, current, target)]
        if lost:
            sentences.append(
                f"CHECK constraint {name} ({text}) reads {', '.join(lost)}, which this refresh "
                f"drops or gives another type: drop the constraint (ALTER TABLE ... DROP "
                f"CONSTRAINT {name}), or let the query keep the column."
            )
    return sentences


def rule_notes(current: StructType, target: StructType) -> tuple[str, ...]:
    """What becomes of generated columns, identities, defaults and lengths, as sentences.

    Args:
        current: The table's columns, with their metadata.
    """
    notes = []
    for column in current.fields:
        now = column_named(target, column.name)
        stays = now is not None and now.dataType == column.dataType
        for rule in column_rules(column):
            if not stays:
                notes.append(f"column {column.name} is no longer {rule}: it is dropped or retyped")
        length = column.metadata.get(DECLARED_TYPE)
        if length and stays:
            notes.append(
                f"column {column.name} was declared as {length}: Delta refuses longer values, and "
                f"pads shorter values of a char"
            )
    return tuple(notes)


def padded_length(column: StructField) -> str | None:
    """The declared type of a column that Spark pads when it reads it: a CHAR, also nested.

    Args:
        column: A column of a table, with its metadata.

    Returns:
        None for every other column.

    Example:
        >>> from pyspark.sql.types import StringType
        >>> metadata = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
        >>> padded_length(StructField("code", StringType(), True, metadata))
        'char(5)'
    """
    length = str(column.metadata.get(DECLARED_TYPE, ""))
    return length if _CHAR.search(length) else None


def given_identities(current: StructType, target: StructType) -> list[StructField]:
    """The identity columns that a table keeps and for which the query gives values.

    Args:
        current: The table's columns, with their metadata.
    """
    found = []
    for column in current.fields:
        now = column_named(target, column.name)
        if _IDENTITY in column.metadata and now is not None and now.dataType == column.dataType:
            found.append(column)
    return found


def is_always_generated(identity: StructField) -> bool:
    """True for a column `GENERATED ALWAYS AS IDENTITY`, which only Delta may fill.

    Source of the rule: Delta's `IdentityColumn.blockExplicitIdentityColumnInsert`.
    """
    return not identity.metadata[_IDENTITY]


def column_rules(column: StructField) -> list[str]:
    """The rules of a column besides NOT NULL, each as a phrase: generation, default and the like.

    Args:
        column: A column of a table, with its metadata.
    """
    metadata, rules = column.metadata, []
    if GENERATED in metadata:
        rules.append(f"generated as {metadata[GENERATED]}")
    if is_identity(column):
        rules.append("an identity column")
    if DEFAULT in metadata:
        rules.append(f"defaulted to {metadata[DEFAULT]}")
    if DECLARED_TYPE in metadata:
        rules.append(str(metadata[DECLARED_TYPE]))
    return rules


def columns_read(condition: str) -> list[str]:
    """The columns that a SQL condition reads; none when it cannot be parsed.

    Example:
        >>> columns_read("amount > 0 AND currency IS NOT NULL")
        ['amount', 'currency']
    """
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except SqlglotError:
        return []
    return sorted({column.parts[0].name for column in parsed.find_all(exp.Column)})


def _loses(name: str, current: StructType, target: StructType) -> bool:
    before, after = column_named(current, name), column_named(target, name)
    if before is None:
        return False
    if after is None:
        return True
    renamed = StructField(before.name, after.dataType, True)
    try:
        evolved_schema(StructType([before]), StructType([renamed]))
    except Refused:
        return True
    return False
