"""Names with a credential in them are recorded without it, and found again all the same."""

import json
from dataclasses import replace

import pytest

from delta_pipelines.model.table_state import TableVersion
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.redacted_names import recognised, recorded
from delta_pipelines.planning.skipping.skip_decision import judge, judge_overtaken
from delta_pipelines.security.redaction import Redaction

SECRET = "hunter22"
KNOWING = Redaction(frozenset([SECRET]))
NOW = Dependencies(
    definition="d",
    tables={f"{SECRET}.orders": TableVersion("id", 3), "s.a": TableVersion("other", 1)},
    views={f"{SECRET}.v": "h"},
    files={f"file:/{SECRET}/landing": "f", f"file:/{SECRET}2/landing": "g", "s3://k:abc@b/x": "e"},
    functions={f"by_{SECRET}": "c"},
    settings={"spark.sql.columnNameOfCorruptRecord": f"_{SECRET}", "spark.sql.ansi.enabled": "1"},
    without_version=(),
)


def written(dependencies: Dependencies, redaction: Redaction) -> LastWrite:
    """The commit that a run leaves that knows these credentials."""
    text = json.dumps(recorded(dependencies, redaction).to_dict())
    if redaction == KNOWING:
        assert SECRET not in text
        assert "abc@" not in text
    return LastWrite(7, ours=True, dependencies=Dependencies.from_dict(json.loads(text)))


@pytest.mark.parametrize("redaction", [KNOWING, Redaction()])
def test_names_with_a_credential_in_them_are_not_a_change(redaction) -> None:
    """Nor when the run before knew of no credential, or this one knows of none."""
    verdict = judge(written(NOW, redaction), NOW)
    assert (verdict.unchanged, verdict.reason) == (True, "nothing changed since version 7")


def test_recorded_names_are_readable_and_stay_different() -> None:
    files = recorded(NOW, KNOWING).files
    assert len(files) == 3
    assert {name.partition(" [sha256:")[0] for name in files} == {
        "file:/***/landing",
        "file:/***2/landing",
        "s3://***@b/x",
    }
    plain = Dependencies("d", tables={"s.a": TableVersion("id", 1)}, files={"file:/x": "f"})
    assert recorded(plain, KNOWING) == plain


def test_hashes_and_ids_are_never_redacted() -> None:
    secret = Dependencies(SECRET, plan=SECRET, tables={"s.a": TableVersion(SECRET, 1)})
    assert recorded(secret, KNOWING) == secret


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"files": {**NOW.files, f"file:/{SECRET}/landing": "other"}},
            f"the files in file:/{SECRET}/landing changed",
        ),
        (
            {"tables": {**NOW.tables, f"{SECRET}.orders": TableVersion("id", 4)}},
            f"{SECRET}.orders changed (version 3 -> 4)",
        ),
        ({"functions": {f"by_{SECRET}": "x"}}, f"the function by_{SECRET} changed"),
        ({"views": {f"{SECRET}.v": "x"}}, f"the view {SECRET}.v changed"),
    ],
)
def test_a_change_behind_such_a_name_is_seen(change, why) -> None:
    verdict = judge(written(NOW, KNOWING), replace(NOW, **change))
    assert (verdict.unchanged, verdict.reason) == (False, why)


def test_a_missing_input_is_reported_by_its_redacted_name() -> None:
    gone = replace(NOW, tables={"s.a": TableVersion("other", 1)})
    verdict = judge(written(NOW, KNOWING), gone)
    assert verdict.reason.startswith("it reads ***.orders [sha256:")
    assert SECRET not in verdict.reason


def test_another_value_of_a_setting_is_seen_although_both_are_redacted() -> None:
    other = {**NOW.settings, "spark.sql.columnNameOfCorruptRecord": f"_{SECRET}{SECRET}"}
    verdict = judge(written(NOW, KNOWING), replace(NOW, settings=other))
    assert "the setting spark.sql.columnNameOfCorruptRecord changed" in verdict.reason


def test_a_commit_of_a_version_before_is_read_by_its_plain_names() -> None:
    """It had names as they are, or redacted ones without a hash, which cost one refresh."""
    plain = LastWrite(7, ours=True, dependencies=NOW)
    assert judge(plain, NOW).unchanged
    old = {"file:/***/landing": "f"}
    now = {f"file:/{SECRET}/landing": "f"}
    last = LastWrite(7, ours=True, dependencies=Dependencies("d", files=old))
    assert not judge(last, Dependencies("d", files=now)).unchanged


def test_a_run_that_was_overtaken_finds_such_a_name_too() -> None:
    older = {**NOW.tables, f"{SECRET}.orders": TableVersion("id", 2)}
    verdict = judge_overtaken(written(NOW, KNOWING), replace(NOW, tables=older))
    assert verdict is not None
    assert verdict.unchanged


def test_a_name_that_only_looks_recorded_is_left_alone() -> None:
    odd = Dependencies("d", files={"file:/x [sha256:0123456789abcdef]": "f"})
    assert recognised(odd, odd) == odd
