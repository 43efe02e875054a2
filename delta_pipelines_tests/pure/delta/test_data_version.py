"""Which commit last changed a table's rows, however many followed that did not."""

import pytest

from delta_pipelines.delta import history
from delta_pipelines.delta.history import data_version_at
from delta_pipelines.delta.table import HistoryEntry

QUIET = "SET TBLPROPERTIES"


class Log:
    """A table's log: what each commit did; a commit that is not named only altered the table."""

    def __init__(self, did: dict[int, str | None]) -> None:
        self.did = did
        self.read: list[int] = []

    def entry(self, spark: object, location: str, version: int) -> HistoryEntry | None:
        self.read.append(version)
        operation = self.did.get(version, QUIET)
        return HistoryEntry(version, operation, {}, None, 0) if operation else None


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch):
    """Look up the data version of a log, with nothing known of it before."""

    def look_up(log: Log, version: int) -> int:
        monkeypatch.setattr(history, "history_entry", log.entry)
        return data_version_at(None, "/t", "id", version)  # type: ignore[arg-type]

    for known in ("_known", "_entries", "_texts"):
        monkeypatch.setattr(history, known, {})
    return look_up


@pytest.mark.parametrize("quiet", [0, 1, 99, 100, 101, 450])
def test_the_write_is_found_behind_any_number_of_commits_without_rows(looked_up, quiet) -> None:
    assert looked_up(Log({0: "CREATE TABLE", 7: "WRITE"}), 7 + quiet) == 7


def test_a_table_that_was_only_altered_has_the_rows_of_its_first_version(looked_up) -> None:
    assert looked_up(Log({0: "CREATE TABLE AS SELECT"}), 250) == 0


def test_the_search_ends_where_the_log_was_cleaned_up(looked_up) -> None:
    assert looked_up(Log({7: "WRITE", 40: None, 41: None}), 300) == 41


def test_a_later_version_reads_only_the_commits_since(looked_up) -> None:
    log = Log({7: "WRITE"})
    looked_up(log, 300)
    log.read.clear()
    assert looked_up(log, 303) == 7
    assert log.read == [303, 302, 301]


def test_a_write_of_our_own_is_not_read_back(looked_up) -> None:
    log = Log({0: "CREATE TABLE"})
    history.note_write("/t", "id", 7, "what we said")
    assert looked_up(log, 9) == 7
    assert history.recorded_text(None, "/t", "id", 7) == "what we said"  # type: ignore[arg-type]
    assert log.read == [9, 8]
    assert history.recorded_text(None, "/t", "id", 9) is None  # type: ignore[arg-type]
