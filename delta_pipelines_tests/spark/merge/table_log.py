"""Compare a table's log with its folder and with the rows of every file."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

Action = dict[str, Any]
LONGEST_TEXT = 32
"""Of longer texts, Delta's statistics contain only the beginning."""
_COMPARED = (bool, int, float, str, date, Decimal)


def versions_of(path: str) -> Iterator[list[tuple[str, Action]]]:
    """What each commit holds, from the first one on."""
    for file in sorted(Path(path, "_delta_log").glob("*.json")):
        if file.stem.isdecimal():
            lines = file.read_text().splitlines()
            yield [action for line in lines for action in json.loads(line).items()]


def standing_files(path: str) -> dict[str, Action]:
    """The files of the newest version; every removal is of a file that stood in the table."""
    standing: dict[tuple[str, object], Action] = {}
    for actions in versions_of(path):
        for kind, action in actions:
            if kind == "remove":  # one with another vector may be added in the same commit
                key = (unquote(action["path"]), _vector(action))
                assert key in standing, f"{key} is removed and does not stand in the table"
                del standing[key]
        for kind, action in actions:
            if kind == "add":
                standing[unquote(action["path"]), _vector(action)] = action
    files = {name: action for (name, _), action in standing.items()}
    assert len(files) == len(standing), "a file stands in the table twice"
    return files


def check_no_orphans(spark: SparkSession, path: str) -> None:
    """Every file of the table's folder stands in its log.

    But for what Delta's writer leaves, which VACUUM takes away: files without rows, and deletion
    vectors of all rows of a file, which then is removed.
    """
    names, vectors, emptied = set(), set(), 0
    for actions in versions_of(path):
        paths = [(kind, unquote(a["path"])) for kind, a in actions if "path" in a]
        added = {name for kind, name in paths if kind == "add"}
        emptied += len({name for kind, name in paths if kind == "remove"} - added)
        names |= added | {name for kind, name in paths if kind == "cdc"}
        stored = [a.get("deletionVector") for kind, a in actions if kind == "add"]
        vectors |= {v["pathOrInlineDv"] for v in stored if v and v["storageType"] == "u"}
    root = Path(path)
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and file.suffix != ".crc" and "_delta_log" not in file.parts
    }
    bins = {name for name in found if name.endswith(".bin")}
    for name in found - bins - names:
        assert spark.read.parquet(str(root / name)).count() == 0, f"no version knows {name}"
    assert len(vectors) <= len(bins) <= len(vectors) + emptied, "vectors that no version knows"


def read_by_file(spark: SparkSession, path: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every file that has some."""
    frame = spark.read.format("delta").load(path)
    file_path = frame.metadataColumn("_metadata")["file_path"]
    rows = defaultdict(list)
    for *row, file in frame.select("*", file_path).collect():
        name = Path(unquote(urlsplit(file).path)).relative_to(path)
        rows[str(name)].append(tuple(row))
    return dict(rows)


def check_statistics(path: str, rows: dict[str, list[tuple[object, ...]]]) -> int:
    """The log's statistics of every file are correct.

    Args:
        path: The table.
        rows: The rows of every file.

    Returns:
        Number of compared minimums and maximums.
    """
    standing = standing_files(path)
    assert rows.keys() <= standing.keys()
    metadata_actions = (
        a for actions in versions_of(path) for kind, a in actions if kind == "metaData"
    )
    (*_, metadata) = metadata_actions
    fields = json.loads(metadata["schemaString"])["fields"]
    compared = 0
    for name, action in standing.items():
        stats = json.loads(action["stats"], parse_float=Decimal)
        vector = action.get("deletionVector")
        left = rows.get(name, [])
        assert stats["numRecords"] - (vector["cardinality"] if vector else 0) == len(left)
        for position, field in enumerate(fields):
            physical_name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            values = [row[position] for row in left]
            if physical_name in action["partitionValues"]:
                _check_partition(action["partitionValues"][physical_name], values)
            else:
                compared += _check_column(stats, physical_name, values, exact=vector is None)
    return compared


def _check_partition(partition_value: str | None, values: list[object]) -> None:
    if all(type(value) in (int, str, date) for value in values if value is not None):
        assert {None if value in (None, "") else str(value) for value in values} <= {
            partition_value
        }


def _check_column(stats: Action, name: str, values: list[Any], *, exact: bool) -> int:
    nulls = stats.get("nullCount", {}).get(name)
    if isinstance(nulls, int):
        found = sum(value is None for value in values)
        assert nulls == found if exact else nulls >= found
    known = [value for value in values if value is not None]
    bounds = [(stats.get(key) or {}).get(name) for key in ("minValues", "maxValues")]
    if not known or None in bounds or not all(type(value) in _COMPARED for value in known):
        return 0
    if isinstance(known[0], float):
        if not all(map(_is_finite, (*known, *bounds))):
            return 0
        bounds = [float(bound) for bound in bounds]
    if isinstance(known[0], date):
        bounds = [date.fromisoformat(bound) for bound in bounds]
    if any(isinstance(value, str) and len(value) >= LONGEST_TEXT for value in (*known, *bounds)):
        assert bounds[0] <= min(known)
        return 1
    if isinstance(known[0], str):  # sorted by their bytes, as Spark does
        known.sort(key=str.encode)
        found = known[0].encode(), known[-1].encode()
        low, high = bounds[0].encode(), bounds[1].encode()
    else:
        found, (low, high) = (min(known), max(known)), bounds
    assert (low, high) == found if exact else low <= found[0] and found[1] <= high
    return 2


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def _vector(action: Action) -> tuple[object, ...]:
    vector = action.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset")) if vector else ()
