"""Which tables a run refreshes, and which of them fully."""

import logging
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.datasets import construct_full_refresh_set as public_function
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.refresh_set import construct_full_refresh_set

LOGGER = "delta_pipelines.planning.refresh_set"


def tables(*guarded: bool, upserts: bool = False) -> list[Table]:
    """Tables t0, t1, ...; the guarded ones do not allow a reset."""
    pipeline = dp.Pipeline("p", schema="s")
    for number, guard in enumerate(guarded):
        properties = {"pipelines.reset.allowed": "false"} if guard else {}
        if upserts:
            pipeline.upsert(f"t{number}", "SELECT 1 n", keys=["n"], table_properties=properties)
        else:
            pipeline.materialized_view(f"t{number}", "SELECT 1 n", table_properties=properties)
    return list(pipeline.graph().tables)


def names(identifiers: Sequence[Identifier]) -> list[str]:
    return [identifier.name for identifier in identifiers]


numbers = st.sets(st.integers(0, 5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    guarded=st.lists(st.booleans(), min_size=6, max_size=6),
    refresh=st.none() | numbers,
    full=numbers,
    everything=st.booleans(),
    by_name=st.booleans(),
)
def test_the_three_collections(
    caplog: pytest.LogCaptureFixture,
    guarded: list[bool],
    refresh: set[int] | None,
    full: set[int],
    everything: bool,
    by_name: bool,
) -> None:
    caplog.clear()
    declared = tables(*guarded)

    def given_as(chosen: set[int]) -> list[Identifier | str]:
        return [f"t{n}" if by_name else declared[n].identifier for n in sorted(chosen)]

    with caplog.at_level(logging.INFO, logger=LOGGER):
        every, ordinary, fully = construct_full_refresh_set(
            declared,
            refresh=None if refresh is None else given_as(refresh),
            full_refresh=given_as(full),
            full_refresh_all=everything,
        )

    chosen = set(range(6)) if refresh is None or (everything and not refresh) else refresh
    asked = full | chosen if everything else full
    allowed = {n for n in asked if not guarded[n]}
    assert names(fully) == [f"t{n}" for n in sorted(allowed)]
    assert names(ordinary) == [f"t{n}" for n in sorted((chosen | full) - allowed)]
    assert [t.name for t in every] == [f"t{n}" for n in sorted(chosen | full)]
    assert not set(fully) & set(ordinary)
    assert all(table.reset_allowed for table in every if table.identifier in fully)

    refused = ", ".join(f"s.t{n}" for n in sorted(asked - allowed))
    line = (
        "Skipping full refresh on some tables because pipelines.reset.allowed was set to false. "
        f"Tables: [{refused}]"
    )
    assert [record.getMessage() for record in caplog.records] == ([line] if refused else [])
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_by_default_everything_is_refreshed_and_nothing_fully() -> None:
    declared = tables(False, True)
    assert construct_full_refresh_set(declared) == (
        declared,
        [table.identifier for table in declared],
        [],
    )


def test_an_empty_selection_selects_nothing() -> None:
    assert construct_full_refresh_set(tables(False), refresh=[]) == ([], [], [])


def test_full_refresh_all_of_a_selection_leaves_the_others_alone() -> None:
    _, ordinary, fully = construct_full_refresh_set(
        tables(False, False, True), refresh=["t0", "t2"], full_refresh_all=True
    )
    assert (names(ordinary), names(fully)) == (["t2"], ["t0"])


def test_full_refresh_all_of_no_selection_is_of_all_tables() -> None:
    everything, ordinary, fully = construct_full_refresh_set(
        tables(False, True), refresh=[], full_refresh=[], full_refresh_all=True
    )
    assert (len(everything), names(ordinary), names(fully)) == (2, ["t1"], ["t0"])


@pytest.mark.parametrize("name", ["t0", "T0", "s.t0", "S.T0", Identifier(None, "s", "t0")])
def test_a_table_is_found_by_any_of_its_names(name: str | Identifier) -> None:
    _, _, fully = construct_full_refresh_set(tables(False), refresh=[], full_refresh=[name])
    assert names(fully) == ["t0"]


@pytest.mark.parametrize("everything", [True, False])
def test_an_upsert_target_that_does_not_allow_a_reset_is_never_refreshed_fully(
    everything: bool,
) -> None:
    _, ordinary, fully = construct_full_refresh_set(
        tables(True, upserts=True), full_refresh=["t0"], full_refresh_all=everything
    )
    assert (names(ordinary), names(fully)) == (["t0"], [])


def test_the_function_is_the_one_that_datasets_exports() -> None:
    assert public_function is construct_full_refresh_set


def test_a_thousand_tables_named_one_by_one_take_no_second(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tables(*[False] * 1000)
    compared = []
    monkeypatch.setattr(Table, "__eq__", lambda self, other: compared.append(self) or self is other)
    named = [table.identifier for table in declared]
    every, ordinary, fully = construct_full_refresh_set(
        declared, refresh=named[:600], full_refresh=named[400:], full_refresh_all=True
    )
    assert (len(every), ordinary, fully) == (1000, [], named)
    assert compared == []


def test_tables_themselves_select_and_a_single_text_is_refused() -> None:
    declared = tables(False, False)
    every, ordinary, fully = construct_full_refresh_set(
        declared, refresh=[declared[0]], full_refresh=[declared[1]]
    )
    assert every == declared
    assert (ordinary, fully) == ([declared[0].identifier], [declared[1].identifier])
    for selection in ({"refresh": "t0"}, {"full_refresh": "t0"}):
        with pytest.raises(dp.PipelineError, match=r"a list of names: write \['t0'\]"):
            construct_full_refresh_set(declared, **selection)
