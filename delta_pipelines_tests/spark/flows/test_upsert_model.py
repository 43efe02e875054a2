"""Random upsert batches against a model of a few lines: a Python dict."""

import random

import pytest

from delta_pipelines_tests.pipelines import Feed, merged, rows_of, run_one, scratch, version_of

BATCHES = 15
COLUMNS = "a INT, b STRING, n INT, v STRING"
Row = tuple[int, str, int | None, str]


class Model:
    """What an upsert target holds: its rows by key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], Row] = {}

    def merge(self, batch: list[Row]) -> bool:
        """Apply a batch and tell whether anything changed."""
        before = dict(self.rows)
        for key, row in newest(batch).items():
            old = self.rows.get(key)
            if old is not None and old[2] is not None and (row[2] is None or row[2] < old[2]):
                continue
            if row[3] == "gone":
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
        return self.rows != before

    def replace(self, batch: list[Row]) -> None:
        """A full refresh."""
        self.rows = {key: row for key, row in newest(batch).items() if row[3] != "gone"}


def newest(batch: list[Row]) -> dict[tuple[int, str], Row]:
    best: dict[tuple[int, str], Row] = {}
    for row in batch:
        key = (row[0], row[1])
        if key not in best or order(row) > order(best[key]):
            best[key] = row
    return best


def order(row: Row) -> int:
    return -1 if row[2] is None else row[2]


def random_batch(chance: random.Random) -> list[Row]:
    """Rows over few keys; no two of one key tie with other values."""
    seen: dict[tuple[int, str, int | None], Row] = {}
    for _ in range(chance.randrange(6)):
        a, b = chance.randrange(4), chance.choice("xy")
        n = chance.choice([None, *range(6)])
        value = chance.choice(["gone", "p", "q", "r"])
        seen.setdefault((a, b, n), (a, b, n, value))
    return list(seen.values())


@pytest.mark.parametrize("seed", [7])
def test_random_batches_leave_what_a_dict_would_hold(spark, schema, seed):
    chance = random.Random(seed)
    feed, model = Feed(COLUMNS), Model()
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["a", "b"], sequence_by="n", deletes_when="v = 'gone'")
    done = set()
    for number in range(BATCHES):
        batch = random_batch(chance)
        feed.set(*batch)
        told = f"seed {seed}, batch {number}: {batch} on {model.rows}"
        if number == 0 or chance.random() < 0.15:
            model.replace(batch)
            result = run_one(pipeline, spark, full_refresh=["t"])
            assert result.status == "completed", f"{told}: {result.error}"
        else:
            version = version_of(spark, f"{schema}.t")
            changed = model.merge(batch)
            result = run_one(pipeline, spark)
            assert result.status == ("completed" if changed else "unchanged"), f"{told}: {result}"
            assert version_of(spark, f"{schema}.t") == version + changed, told
        done.add((result.action, result.status))
        expected = sorted(model.rows.values(), key=str)
        assert sorted(rows_of(spark, f"{schema}.t"), key=str) == expected, told
    assert {("refresh", "completed"), ("none", "unchanged"), ("full_refresh", "completed")} <= done
