"""When a source is materialised: Delta's decision table."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.merge.materialize_decision import should_materialize_source
from delta_pipelines.model.merge_result import MaterializeSourceReason
from delta_pipelines.model.source_facts import SourceFacts

Reason = MaterializeSourceReason
SAFE = SourceFacts()
facts = st.builds(
    SourceFacts, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans()
)


@pytest.mark.parametrize(
    ("mode", "known", "insert_only", "expected"),
    [
        ("all", SAFE, True, (True, "materializeAll")),
        ("none", replace(SAFE, only_delta_scans=False), False, (False, "notMaterializedNone")),
        ("auto", SAFE, True, (False, "notMaterializedAutoInsertOnly")),
        (
            "auto",
            replace(SAFE, only_delta_scans=False),
            False,
            (True, "materializeNonDeterministicSourceNonDelta"),
        ),
        (
            "auto",
            replace(SAFE, deterministic=False),
            False,
            (True, "materializeNonDeterministicSourceOperators"),
        ),
        (
            "auto",
            replace(SAFE, ignores_unreadable_files=True),
            False,
            (True, "materializeIgnoreUnreadableFilesConfigsAreSet"),
        ),
        (
            "auto",
            replace(SAFE, has_udf=True),
            False,
            (True, "materializeNonDeterministicSourceWithDeterministicUdf"),
        ),
        ("auto", replace(SAFE, cached=True), False, (True, "materializeCachedSource")),
        ("auto", SAFE, False, (False, "notMaterializedAuto")),
        ("sometimes", SAFE, True, (True, "invalidConfigurationFailsafe")),
        ("", SAFE, False, (True, "invalidConfigurationFailsafe")),
    ],
)
def test_every_row_of_the_table(
    mode: str, known: SourceFacts, insert_only: bool, expected: tuple[bool, str]
):
    assert should_materialize_source(mode, known, insert_only) == expected


@given(facts, st.booleans())
def test_modes_are_read_in_any_case(known: SourceFacts, insert_only: bool):
    for mode in ("auto", "all", "none"):
        decided = should_materialize_source(mode, known, insert_only)
        assert should_materialize_source(mode.upper(), known, insert_only) == decided
        assert should_materialize_source(mode.title(), known, insert_only) == decided


@given(facts, st.booleans())
def test_the_modes_all_and_none_read_nothing_else(known: SourceFacts, insert_only: bool):
    assert should_materialize_source("all", known, insert_only)[0]
    assert not should_materialize_source("none", known, insert_only)[0]


@given(facts)
def test_insert_only_reads_once_and_never_materialises(known: SourceFacts):
    decided = should_materialize_source("auto", known, True)
    assert decided == (False, Reason.NOT_MATERIALIZED_AUTO_INSERT_ONLY)


@given(facts)
def test_the_first_unsafe_fact_is_the_reason(known: SourceFacts):
    unsafe = [
        (not known.only_delta_scans, Reason.NON_DETERMINISTIC_SOURCE_NON_DELTA),
        (not known.deterministic, Reason.NON_DETERMINISTIC_SOURCE_OPERATORS),
        (known.ignores_unreadable_files, Reason.IGNORE_UNREADABLE_FILES_CONFIGS_ARE_SET),
        (known.has_udf, Reason.NON_DETERMINISTIC_SOURCE_WITH_DETERMINISTIC_UDF),
        (known.cached, Reason.SOURCE_CACHED),
    ]
    reasons = [reason for is_so, reason in unsafe if is_so]
    expected = (True, reasons[0]) if reasons else (False, Reason.NOT_MATERIALIZED_AUTO)
    assert should_materialize_source("auto", known, False) == expected
