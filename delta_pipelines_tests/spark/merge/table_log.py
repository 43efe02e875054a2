"""A table's log held against its folder and against the rows of every file."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

Action = dict[str, Any]
LONGEST_TEXT = 32
"""Of longer ones Delta tells the beginning."""
_COMPARED = (bool, int, float, str, date)


def actions_of(path: str) -> Iterator[tuple[str, Action]]:
    """What was committed, from the first version on."""
    for file in sorted(Path(path, "_delta_log").glob("*.json")):
        if file.stem.isdecimal():
            for line in file.read_text().splitlines():
                yield from json.loads(line).items()


def standing_files(path: str) -> dict[str, Action]:
    """The files of the newest version; every removal is of a file that stood in the table."""
    standing: dict[str, Action] = {}
    vectors: dict[str, tuple[object, ...]] = {}
    for kind, action in actions_of(path):
        if kind == "remove":
            name = unquote(action["path"])
            if vectors.get(name) == _vector(action):  # else it was added anew in this commit
                del standing[name], vectors[name]
            else:
                assert name in standing, f"{name} is removed and was not there"
        elif kind == "add":
            name = unquote(action["path"])
            standing[name], vectors[name] = action, _vector(action)
    return standing


def check_no_orphans(spark: SparkSession, path: str) -> None:
    """Every file of the table's folder stands in its log.

    But for what Delta's writer leaves, which VACUUM takes away: files without rows, and deletion
    vectors of all rows of a file, which then is removed.
    """
    names, vectors, removed = set(), set(), 0
    for kind, action in actions_of(path):
        if kind in ("add", "cdc"):
            names.add(unquote(action["path"]))
        removed += kind == "remove"
        vector = action.get("deletionVector") if kind == "add" else None
        if vector and vector["storageType"] == "u":
            vectors.add(vector["pathOrInlineDv"])
    root = Path(path)
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and file.suffix != ".crc" and "_delta_log" not in file.parts
    }
    bins = {name for name in found if name.endswith(".bin")}
    for name in found - bins - names:
        assert spark.read.parquet(str(root / name)).count() == 0, f"no version knows {name}"
    assert len(vectors) <= len(bins) <= len(vectors) + removed, "vectors that no version knows"


def read_by_file(spark: SparkSession, path: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every file that has some."""
    frame = spark.read.format("delta").load(path)
    place = frame.metadataColumn("_metadata")["file_path"]
    rows = defaultdict(list)
    for *row, file in frame.select("*", place).collect():
        name = Path(unquote(urlsplit(file).path)).relative_to(Path(path).resolve())
        rows[str(name)].append(tuple(row))
    return dict(rows)


def check_statistics(path: str, rows: dict[str, list[tuple[object, ...]]]) -> int:
    """What the log tells of every file is so.

    Args:
        path: The table.
        rows: The rows of every file.

    Returns:
        How many ends of columns were compared.
    """
    standing = standing_files(path)
    assert rows.keys() <= standing.keys()
    (*_, metadata) = (action for kind, action in actions_of(path) if kind == "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    compared = 0
    for name, action in standing.items():
        stats, vector = json.loads(action["stats"]), action.get("deletionVector")
        left = rows.get(name, [])
        assert stats["numRecords"] - (vector["cardinality"] if vector else 0) == len(left)
        for place, field in enumerate(fields):
            told = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            values = [row[place] for row in left]
            if told in action["partitionValues"]:
                _check_partition(action["partitionValues"][told], values)
            else:
                compared += _check_column(stats, told, values, exact=vector is None)
    return compared


def _check_partition(told: str | None, values: list[object]) -> None:
    if all(type(value) in (int, str, date) for value in values if value is not None):
        assert {None if value in (None, "") else str(value) for value in values} <= {told}


def _check_column(stats: Action, name: str, values: list[Any], *, exact: bool) -> int:
    nulls = stats.get("nullCount", {}).get(name)
    if isinstance(nulls, int):
        found = sum(value is None for value in values)
        assert nulls == found if exact else nulls >= found
    known = [value for value in values if value is not None]
    ends = [(stats.get(end) or {}).get(name) for end in ("minValues", "maxValues")]
    if not known or None in ends or not all(type(value) in _COMPARED for value in known):
        return 0
    if any(isinstance(value, float) and not math.isfinite(value) for value in known):
        return 0
    if isinstance(known[0], date):
        ends = [date.fromisoformat(end) for end in ends]
    if any(isinstance(value, str) and len(value) >= LONGEST_TEXT for value in (*known, *ends)):
        assert ends[0] <= min(known)
        return 1
    if isinstance(known[0], str):  # sorted by their bytes, as Spark does
        known.sort(key=str.encode)
        found = known[0].encode(), known[-1].encode()
        low, high = ends[0].encode(), ends[1].encode()
    else:
        found, (low, high) = (min(known), max(known)), ends
    assert (low, high) == found if exact else low <= found[0] and found[1] <= high
    return 2


def _vector(action: Action) -> tuple[object, ...]:
    vector = action.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset")) if vector else ()
