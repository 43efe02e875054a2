"""The fluent builder, without a session."""

from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import MergeBuilder, merge_into
from delta_pipelines.merge.clauses import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)

NOTHING: Any = None
ROWS: Any = object.__new__(DataFrame)
"""A source of the right type; a merge that is only built asks it for nothing."""


def begin(**options: Any) -> MergeBuilder:
    return merge_into(NOTHING, "air.airports", ROWS, "t.icao = s.icao", **options)


def test_every_method_adds_its_clause_in_order():
    clauses = (
        begin()
        .when_matched_update_all("c1", skip_unchanged=True)
        .when_matched_update(set={"a": "1"}, condition="c2")
        .when_matched_delete("c3")
        .when_not_matched_insert_all("c4")
        .when_not_matched_insert(values={"b": "2"}, condition="c5")
        .when_not_matched_by_source_update(set={"c": "3"}, condition="c6")
        .when_not_matched_by_source_delete("c7")
        .spec.clauses
    )
    assert [type(clause) for clause in clauses] == [
        MatchedUpdate,
        MatchedUpdate,
        MatchedDelete,
        NotMatchedInsert,
        NotMatchedInsert,
        NotMatchedBySourceUpdate,
        NotMatchedBySourceDelete,
    ]
    assert [clause.condition for clause in clauses] == [f"c{n}" for n in range(1, 8)]
    assert [getattr(clause, "assignments", None) for clause in clauses] == [
        None,
        {"a": "1"},
        None,
        None,
        {"b": "2"},
        {"c": "3"},
        None,
    ]
    assert clauses[0].skip_unchanged
    assert not clauses[1].skip_unchanged


def test_a_builder_can_be_continued_in_two_ways():
    common = begin().when_matched_update_all()
    deleting = common.when_not_matched_by_source_delete()
    evolving = common.with_schema_evolution()
    assert len(common.spec.clauses) == 1
    assert len(deleting.spec.clauses) == 2
    assert evolving.spec.schema_evolution
    assert not common.spec.schema_evolution
    assert not deleting.spec.schema_evolution


def test_options_reach_the_merge():
    spec = begin(target_alias="old", source_alias="new", executor="classic").spec
    assert (spec.target_alias, spec.source_alias, spec.executor) == ("old", "new", "classic")


def test_unknown_executor_is_refused_at_once():
    with pytest.raises(MergeError, match="not a merge executor"):
        begin(executor="photon")


def test_without_a_clause_nothing_is_opened():
    with pytest.raises(MergeError, match=r"^air\.airports: \[DELTA_MERGE_MISSING_WHEN\]"):
        begin().execute()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": None}, "target must be a non-empty string, not None"),
        ({"target": ""}, "target must be a non-empty string, not ''"),
        (
            {"source": "air.new"},
            r"source must be a DataFrame, not str; for a table, use spark.table",
        ),
        ({"on": None}, "on must be SQL text or a Column, not None"),
        ({"on": ""}, "on must be SQL text or a Column"),
        ({"source_alias": 7}, "source_alias must be a non-empty string, not 7"),
    ],
)
def test_arguments_of_a_wrong_type_are_rejected_at_once(given, message):
    arguments = {"target": "air.airports", "source": ROWS, "on": "t.icao = s.icao", **given}
    with pytest.raises(MergeError, match=message):
        merge_into(NOTHING, **arguments)
