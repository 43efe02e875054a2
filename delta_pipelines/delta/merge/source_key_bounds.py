"""The smallest and largest keys of a source that is one Delta table, from its files' statistics."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, optional
from delta_pipelines.delta.log.add_files import listed_files, read_entries
from delta_pipelines.delta.merge.clause_plan import KeyPair
from delta_pipelines.delta.merge.file_bounds import Ends, ends_of_files, statistics_of
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.delta.query.plan_nodes import chain_of, delta_index
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE

_KEEPING = ("Project", "Filter", "SubqueryAlias", "ResolvedHint")
"""Plans that leave a column's values as they are, or leave some out."""
_TYPE_CHANGES = "delta.typeChanges"
"""Of a column's metadata: the types that it had before."""


def ends_by_statistics(rows: DataFrame, pairs: Sequence[KeyPair]) -> list[Ends | None]:
    """The ends between which each key has its values; no Spark job runs.

    They may lie apart from the values: statistics tell of rows that are filtered out or deleted.

    Args:
        rows: The source, held to a version.
        pairs: Which keys.

    Returns:
        For each key its ends, both None where it has no value at all; None where nothing is known:
        of another source, of text and decimals, which are told shortened or rounded, and of files
        without statistics.
    """
    above, leaf = chain_of(rows._jdf.queryExecution().analyzed())
    files = _files(leaf) if all(class_name(plan) in _KEEPING for plan in above) else None
    if files is None:
        return [None] * len(pairs)
    told = [statistics_of(entry) for entry in read_entries(Jvm(rows.sparkSession), files)]
    return [_ends(leaf, pair, told) for pair in pairs]


def _files(leaf: JavaObject) -> JavaObject | None:
    index = delta_index(leaf)
    kind = None if index is None else class_name(index)
    if index is None or kind not in ("TahoeBatchFileIndex", "TahoeLogFileIndex"):
        return None
    if str(optional(index.metadata().configuration().get(COLUMN_MAPPING_MODE)) or "none") != "none":
        return None  # statistics have the columns' names in the files
    if kind == "TahoeBatchFileIndex":
        return index.addFiles()
    return listed_files(index.getSnapshot()) if index.isTimeTravelQuery() else None


def _ends(leaf: JavaObject, pair: KeyPair, told: Sequence[Mapping[str, Any]]) -> Ends | None:
    value, kind = pair.value, _type(pair.value)
    fractions = kind.name == "double"
    while class_name(value) == "Cast":
        wider, value = kind, value.child()
        kind = _type(value)
        if not kind.is_whole or not kind.widens_to(wider):
            return None
    if class_name(value) != "AttributeReference" or not leaf.outputSet().contains(value):
        return None
    if not kind.is_counted and (kind.name != "double" or _was_widened(leaf)):
        return None
    ends = ends_of_files(str(value.name()), told, dates=kind.name == "date")
    if not fractions or ends is None or None in ends:
        return ends
    # Large whole numbers are compared as the DOUBLE that several of them are.
    return float(ends[0]), float(ends[1])


def _was_widened(leaf: JavaObject) -> bool:
    """Statistics of files from before tell a FLOAT's text, which is rounded."""
    index = delta_index(leaf)
    return index is None or _TYPE_CHANGES in str(index.metadata().schemaString())


def _type(expression: JavaObject) -> KeyType:
    return KeyType.of(str(expression.dataType().typeName()))
