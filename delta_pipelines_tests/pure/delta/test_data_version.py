"""Which commit last changed a table's rows, however many followed that did not."""

import pytest

from delta_pipelines.delta.log import data_versions
from delta_pipelines.delta.log.data_versions import data_version_at, recorded_entry
from delta_pipelines.model.table_state import HistoryEntry, LogEnd, TableVersion

QUIET = "SET TBLPROPERTIES"


class Log:
    """A table's log: what each commit did; a commit that is not named only altered the table."""

    def __init__(self, did: dict[int, str | None], from_version: int = 0, name: str = "") -> None:
        self.did = did
        self.from_version = from_version
        self.name = name
        self.read: list[int] = []

    def entry(self, spark: object, location: str, version: int) -> HistoryEntry | None:
        self.read.append(version)
        operation = self.did.get(version, QUIET)
        if operation is None:
            return None
        return HistoryEntry(version, operation, {}, None, 0, commit=self.commit(version))

    def commit(self, version: int) -> str:
        """The identity of a commit; those of a log that was put back and written to differ."""
        return f"{self.name if version >= self.from_version else ''} {version}"


def end(version: int, written_ms: int | None = 0) -> LogEnd:
    return LogEnd("/t", "id", version, written_ms)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch):
    """Look up the commit that last changed rows, with nothing known of the log before."""

    def look_up(log: Log, version: int, written_ms: int | None = 0) -> int:
        monkeypatch.setattr(data_versions, "history_entry", log.entry)
        found = data_version_at(None, end(version, written_ms))  # type: ignore[arg-type]
        if log.did.get(found.version, QUIET) is not None:
            assert found == TableVersion("id", found.version, log.commit(found.version))
        return found.version

    for known in ("_known", "_entries"):
        monkeypatch.setattr(data_versions, known, {})
    return look_up


@pytest.mark.parametrize("quiet", [0, 1, 99, 100, 101, 450])
def test_the_write_is_found_behind_any_number_of_commits_without_rows(looked_up, quiet) -> None:
    assert looked_up(Log({0: "CREATE TABLE", 7: "WRITE"}), 7 + quiet) == 7


def test_a_table_that_was_only_altered_has_the_rows_of_its_first_version(looked_up) -> None:
    assert looked_up(Log({0: "CREATE TABLE AS SELECT"}), 250) == 0


def test_the_search_stops_where_the_log_was_cleaned_up(looked_up, monkeypatch) -> None:
    log = Log({7: "WRITE", 40: None, 41: None})
    assert looked_up(log, 300) == 41
    found = data_version_at(None, end(300))  # type: ignore[arg-type]
    assert found.commit == log.commit(42), "the first commit that is there identifies those below"
    gone = Log({9: None})
    identities = []
    for written_ms in (1, 2):
        assert looked_up(gone, 9, written_ms) == 9
        identities.append(data_version_at(None, end(9, written_ms)))  # type: ignore[arg-type]
    assert identities[0] != identities[1], "nothing else is left of the commit than its time"


def test_a_later_version_reads_only_the_commits_since_and_the_one_known_before(looked_up) -> None:
    log = Log({7: "WRITE"})
    looked_up(log, 300)
    log.read.clear()
    assert looked_up(log, 300) == 7
    assert log.read == []
    assert looked_up(log, 303) == 7
    assert log.read == [303, 302, 301, 300]


def test_a_write_of_our_own_is_not_read_back(looked_up) -> None:
    log = Log({0: "CREATE TABLE"})
    ours = HistoryEntry(7, "WRITE", {}, "what we said", 0, commit=log.commit(7))
    data_versions.note_write(end(7), ours)
    assert looked_up(log, 7) == 7
    assert recorded_entry(None, end(7), 7) == ours  # type: ignore[arg-type]
    assert log.read == []
    assert looked_up(log, 9) == 7
    assert log.read == [9, 8, 7]


def test_a_log_that_was_put_back_and_written_to_is_another_log(looked_up) -> None:
    looked_up(Log({0: "CREATE TABLE", 3: "WRITE", 5: "WRITE"}), 7, written_ms=1)
    same_version = Log({0: "CREATE TABLE", 3: "WRITE"}, from_version=4, name="second")
    assert looked_up(same_version, 7, written_ms=2) == 3
    longer = Log({0: "CREATE TABLE", 2: "WRITE"}, from_version=3, name="third")
    assert looked_up(longer, 9, written_ms=3) == 2
    shorter = Log({0: "CREATE TABLE"})
    assert looked_up(shorter, 1, written_ms=4) == 0


def test_a_log_of_which_only_the_version_is_known_is_read_each_time(looked_up) -> None:
    log = Log({7: "WRITE"})
    assert [looked_up(log, 8, written_ms=None) for _ in range(2)] == [7, 7]
    assert log.read == [8, 7, 8, 7]
