"""The smallest and largest keys of a source that is one Delta table, from its files' statistics."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, optional
from delta_pipelines.delta.log.add_files import listed_files, read_entries
from delta_pipelines.delta.merge.clause_plan import KeyPair
from delta_pipelines.delta.merge.file_bounds import Bounds, bounds_of_files, statistics_of
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.delta.query.plan_nodes import chain_of, delta_index
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE

_KEEPING = ("Project", "Filter", "SubqueryAlias", "ResolvedHint")
"""Plans that keep a column's values, or some of them."""
_TYPE_CHANGES = "delta.typeChanges"
"""Key in a column's metadata: its former types."""


def bounds_by_statistics(rows: DataFrame, pairs: Sequence[KeyPair]) -> list[Bounds | None]:
    """Find the smallest and largest value of each key from statistics; no Spark job runs.

    The bounds may be wider than the values: statistics include filtered and deleted rows.

    Args:
        rows: The source, pinned to a version.
        pairs: The keys.

    Returns:
        For each key its bounds, both None if the key has no value at all; None if nothing is known:
        for other sources, for text and decimals (statistics shorten or round them), and for files
        without statistics.
    """
    above, leaf = chain_of(rows._jdf.queryExecution().analyzed())
    files = _files(leaf) if all(class_name(plan) in _KEEPING for plan in above) else None
    if files is None:
        return [None] * len(pairs)
    statistics = [statistics_of(entry) for entry in read_entries(Jvm(rows.sparkSession), files)]
    return [_bounds(leaf, pair, statistics) for pair in pairs]


def _files(leaf: JavaObject) -> JavaObject | None:
    index = delta_index(leaf)
    kind = None if index is None else class_name(index)
    if index is None or kind not in ("TahoeBatchFileIndex", "TahoeLogFileIndex"):
        return None
    if str(optional(index.metadata().configuration().get(COLUMN_MAPPING_MODE)) or "none") != "none":
        return None  # with column mapping, statistics use the columns' physical names
    if kind == "TahoeBatchFileIndex":
        return index.addFiles()
    return listed_files(index.getSnapshot()) if index.isTimeTravelQuery() else None


def _bounds(
    leaf: JavaObject, pair: KeyPair, statistics: Sequence[Mapping[str, Any]]
) -> Bounds | None:
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
    bounds = bounds_of_files(str(value.name()), statistics, dates=kind.name == "date")
    if not fractions or bounds is None or None in bounds:
        return bounds
    # Large integers are compared as DOUBLEs, so several of them are equal.
    return float(bounds[0]), float(bounds[1])


def _was_widened(leaf: JavaObject) -> bool:
    """True when a column had another type: old files' statistics have a FLOAT's rounded text."""
    index = delta_index(leaf)
    return index is None or _TYPE_CHANGES in str(index.metadata().schemaString())


def _type(expression: JavaObject) -> KeyType:
    return KeyType.of(str(expression.dataType().typeName()))
