"""NULL keys and values in a merge, compared with Delta's own suite and Delta's SQL MERGE."""

import pytest

from delta_pipelines_tests.spark.merge.oracle import insert, update

N = None
UPDATE = update(value="s.value")
INSERT = insert(key="s.key", value="s.value")
EQUAL = "s.key = t.key"
DDL = "key int, value int"

UPSERTS = {
    "null-target-key": ([(N, N), (1, 1)], [(1, 10), (2, 20)], EQUAL, [(N, N), (1, 10), (2, 20)]),
    "null-source-key": ([(1, 1)], [(1, 10), (2, 20), (N, N)], EQUAL, [(1, 10), (2, 20), (N, N)]),
    "null-keys-never-match": (
        [(1, 1), (N, N)],
        [(1, 10), (2, 20), (N, 0)],
        EQUAL,
        [(N, N), (1, 10), (2, 20), (N, 0)],
    ),
    "null-key-demanded": (
        [(1, 1), (N, N)],
        [(1, 10), (2, 20), (N, 0)],
        f"{EQUAL} AND s.key IS NULL",
        [(N, N), (1, 1), (N, 0), (1, 10), (2, 20)],
    ),
    "null-value": (
        [(1, 1), (N, N)],
        [(1, N), (2, 20), (N, 0)],
        f"{EQUAL} AND t.value IS NOT NULL",
        [(N, N), (1, N), (N, 0), (2, 20)],
    ),
    "null-safe": (
        [(1, 1), (N, N)],
        [(1, 10), (2, 20), (N, 0)],
        "s.key <=> t.key",
        [(N, 0), (1, 10), (2, 20)],
    ),
    "null-condition": (
        [(1, 1), (N, N)],
        [(1, 10), (2, 20), (N, 0)],
        f"{EQUAL} AND NULL",
        [(N, N), (1, 1), (N, 0), (1, 10), (2, 20)],
    ),
}


@pytest.mark.parametrize(("target", "source", "on", "gives"), UPSERTS.values(), ids=UPSERTS)
def test_upsert(merge_rows, target, source, on, gives):
    merge_rows(target, source, on, UPDATE, INSERT, gives=gives, target_ddl=DDL, source_ddl=DDL)


@pytest.mark.parametrize(
    ("target", "source", "clause", "gives"),
    [
        ([(1, 1)], [(1, 10), (2, 20), (N, N)], INSERT, [(1, 1), (2, 20), (N, N)]),
        (
            [(1, 1), (N, N)],
            [(1, 10), (2, 20), (N, 0)],
            INSERT,
            [(N, N), (1, 1), (2, 20), (N, 0)],
        ),
        (
            [(1, 1), (2, 20)],
            [(1, 10), (3, 30), (N, 0)],
            insert("s.key IS NULL", key="s.key", value="s.value"),
            [(1, 1), (2, 20), (N, 0)],
        ),
    ],
)
def test_insert_only(merge_rows, target, source, clause, gives):
    result = merge_rows(target, source, EQUAL, clause, gives=gives, target_ddl=DDL, source_ddl=DDL)
    assert result.materialize_source_reason == "notMaterializedAutoInsertOnly"


@pytest.mark.parametrize(
    ("target", "source", "gives"),
    [
        ([(1, 1)], [(1, 10), (2, 20), (N, N)], [(1, 10)]),
        ([(1, 1), (N, N)], [(1, 10), (2, 20), (N, 0)], [(N, N), (1, 10)]),
    ],
)
def test_matched_only(merge_rows, target, source, gives):
    merge_rows(target, source, EQUAL, UPDATE, gives=gives, target_ddl=DDL, source_ddl=DDL)
