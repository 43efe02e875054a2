"""The rules that Delta's grammar sets for the clauses of a merge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.merge.clauses import (
    Clause,
    ClauseKind,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    clause_problem,
    clauses_of,
    is_insert_only,
)

MAKERS = [
    lambda condition: MatchedUpdate(condition),
    lambda condition: MatchedDelete(condition),
    lambda condition: NotMatchedInsert(condition),
    lambda condition: NotMatchedInsert(condition, {"a": "1"}),
    lambda condition: NotMatchedBySourceUpdate({"a": "1"}, condition),
    lambda condition: NotMatchedBySourceDelete(condition),
]
clause_lists = st.lists(
    st.builds(
        lambda make, condition: make(condition),
        st.sampled_from(MAKERS),
        st.sampled_from([None, "t.a > 1"]),
    ),
    max_size=6,
)


def test_a_merge_needs_a_clause():
    problem = clause_problem([])
    assert problem is not None
    assert problem.startswith("[DELTA_MERGE_MISSING_WHEN]")


@pytest.mark.parametrize(
    ("clauses", "error_class"),
    [
        ([MatchedUpdate(), MatchedDelete()], "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"),
        (
            [NotMatchedInsert(), NotMatchedInsert("s.a = 1")],
            "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            [NotMatchedBySourceDelete(), NotMatchedBySourceUpdate({"a": "1"})],
            "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        ),
    ],
)
def test_only_the_last_clause_of_a_kind_may_omit_its_condition(
    clauses: list[Clause], error_class: str
):
    assert f"[{error_class}]" in str(clause_problem(clauses))


@given(clause_lists)
def test_clauses_are_fine_exactly_when_each_kind_is(clauses: list[Clause]):
    def fine(kind: ClauseKind) -> bool:
        own = [clause for clause in clauses if clause.kind is kind]
        return all(clause.condition is not None for clause in own[:-1])

    expected = bool(clauses) and all(fine(kind) for kind in ClauseKind)
    assert (clause_problem(clauses) is None) is expected


@given(clause_lists)
def test_kinds_share_out_the_clauses_and_keep_their_order(clauses: list[Clause]):
    shared = [clauses_of(clauses, kind) for kind in ClauseKind]
    assert sum(map(len, shared)) == len(clauses)
    for own in shared:
        positions = [clauses.index(clause) for clause in own]
        assert positions == sorted(positions)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        (MatchedUpdate(assignments={}), "no column is assigned"),
        (MatchedUpdate(assignments={"a": 1}), "the value of 'a' is SQL text or a Column, not int"),
        (MatchedDelete(True), "a condition is SQL text or a Column, not bool"),
        (NotMatchedInsert(assignments=["a"]), "not list"),
    ],
)
def test_an_invalid_expression_is_refused(clause: Clause, message: str):
    problem = str(clause_problem([clause]))
    assert message in problem
    assert problem.startswith(f"WHEN {clause.kind.value}: ")


def test_insert_only_means_nothing_but_inserts():
    assert is_insert_only([NotMatchedInsert("s.a = 1"), NotMatchedInsert()])
    assert not is_insert_only([NotMatchedInsert(), MatchedDelete()])
    assert not is_insert_only([])


@pytest.mark.parametrize(
    "names",
    [("colUtc", "colUTC"), ("id", "`ID`"), ("st.a", "ST.A"), (" id", "id")],
)
@pytest.mark.parametrize("clause", [MatchedUpdate, NotMatchedInsert, NotMatchedBySourceUpdate])
def test_a_column_that_is_assigned_twice_is_named_in_both_spellings(clause, names):
    problem = clause_problem([clause(assignments=dict.fromkeys(names, "1"))])
    assert f"{names[0]!r} and {names[1]!r} are the same column" in problem
    assert problem.startswith(f"WHEN {clause.kind.value}: ")


def test_other_columns_are_assigned_as_they_are():
    for names in (("a.b", "`a.b`"), ("a", "a.b"), ("`a`", "b")):
        assert clause_problem([MatchedUpdate(assignments=dict.fromkeys(names, "1"))]) is None
