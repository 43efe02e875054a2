"""The history checker: is every change that a run reported in the table, exactly once?

A table is a map from key to value. An operation replaces all of it, or sets some keys; the log says
in which order the operations were committed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Content = Mapping[str, int]


@dataclass(frozen=True)
class Operation:
    """What one run of a dataset was to do, and what it said that it did.

    Args:
        run_id: Stands in the commit.
        rows: The rows that it writes.
        replaces: True when they replace all others.
        began: When it was called, in seconds of a clock that all share.
        ended: When it returned.
        version: The version that it reported, None when it failed.
    """

    run_id: str
    rows: Content
    replaces: bool
    began: float
    ended: float
    version: int | None


@dataclass(frozen=True)
class Committed:
    """One entry of a table's log."""

    version: int
    run_id: str


def problems(
    operations: Iterable[Operation], log: Iterable[Committed], final: Content
) -> list[str]:
    """Every fact that is impossible in a table if its writers never interleave.

    Args:
        operations: All that ran, the failed ones too.
        log: All commits, the first by one of the operations.
        final: The table's rows at the end.
    """
    listed = list(operations)
    by_run = {operation.run_id: operation for operation in listed}
    commits = sorted(log, key=lambda commit: commit.version)
    found = [f"two operations are called {r}" for r in _doubles(o.run_id for o in listed)]
    versions = [commit.version for commit in commits]
    if versions != list(range(len(versions))):
        found.append(f"the versions are not 0 to {len(versions) - 1}: {versions}")
    found += [f"{run} committed twice" for run in _doubles(c.run_id for c in commits)]
    at = {commit.run_id: commit.version for commit in commits}
    for operation in listed:
        version = at.get(operation.run_id)
        if operation.version is None and version is not None:
            found.append(f"{operation.run_id} failed but committed version {version}")
        elif operation.version is not None and version is None:
            found.append(f"{operation.run_id} was lost: it reported version {operation.version}")
        elif operation.version != version:
            found.append(f"{operation.run_id} reported {operation.version}, not {version}")
    done = [by_run[commit.run_id] for commit in commits if commit.run_id in by_run]
    found += [f"no writer ran {c.run_id}" for c in commits if c.run_id not in by_run]
    latest = None
    for operation in done:
        if latest is not None and operation.ended < latest.began:
            found.append(f"{operation.run_id} ended before {latest.run_id} began, but comes later")
        if latest is None or operation.began > latest.began:
            latest = operation
    expected: dict[str, int] = {}
    for operation in done:
        expected = dict(operation.rows) if operation.replaces else expected | dict(operation.rows)
    if expected != dict(final):
        missing = {k: v for k, v in expected.items() if final.get(k) != v}
        extra = {k: v for k, v in final.items() if expected.get(k) != v}
        found.append(f"the rows differ: missing {missing}, instead {extra}")
    return found


def read_log(table: Path) -> list[Committed]:
    """A table's commits, read from its files without Spark.

    Args:
        table: The table's folder.
    """
    commits = []
    for file in (table / "_delta_log").glob("*.json"):
        first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
        about = json.loads(first["commitInfo"].get("userMetadata") or "{}")
        commits.append(Committed(int(file.stem), about.get("run_id", "a stranger")))
    return commits


def _doubles(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
