"""Which partitions of a table a run computes, and how that is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.planning.partitions.partition_plan import (
    AT_ONCE,
    PartitionPlan,
    counted,
    ranges_text,
)

EVERY = tuple(f"k{number:03}" for number in range(350))


def plan(every: Any = "abcdef", asked: Any = "abcdef", fresh: Any = "", **more: Any) -> Any:
    return PartitionPlan(tuple(every), tuple(asked), frozenset(fresh), "string", "a", **more)


def test_asked_partitions_that_are_not_fresh_are_computed() -> None:
    made = plan(asked="bcd", fresh="acf")
    assert made.stale == ("b", "d", "e")
    assert made.computed == ("b", "d")
    assert made.unchanged == ("c",)
    assert made.ranges == (("b",), ("d",))


def test_a_forced_plan_computes_what_is_asked_for() -> None:
    made = plan(asked="bcd", fresh="acf", computes_all=True)
    assert made.computed == ("b", "c", "d")
    assert made.unchanged == ()
    assert made.ranges == (("b", "c", "d"),)


def test_what_is_not_known_is_stale_and_may_be_computed() -> None:
    made = plan(asked="bc", fresh="b", is_known=False)
    assert made.stale == tuple("abcdef")
    assert made.computed == ("b", "c")
    assert made.unchanged == ()


numbers = st.sets(st.integers(0, len(EVERY) - 1))


@given(
    asked=numbers | st.just(set(range(len(EVERY)))),
    fresh=numbers,
    named=st.booleans(),
    computes_all=st.booleans(),
    is_known=st.booleans(),
)
def test_the_ranges_are_the_computed_partitions_in_order_each_once(
    asked: set[int], fresh: set[int], named: bool, computes_all: bool, is_known: bool
) -> None:
    made = PartitionPlan(
        EVERY,
        tuple(EVERY[number] for number in sorted(asked)),
        frozenset(EVERY[number] for number in fresh),
        "string",
        EVERY[0],
        named=named,
        computes_all=computes_all,
        is_known=is_known,
    )
    assert [key for keys in made.ranges for key in keys] == list(made.computed)
    assert sorted(made.computed + made.unchanged) == list(made.asked)
    assert set(made.unchanged) <= made.fresh
    for keys in made.ranges:
        first = EVERY.index(keys[0])
        assert EVERY[first : first + len(keys)] == keys
        assert named or len(keys) <= AT_ONCE
    if named:
        ends = [(EVERY.index(keys[0]), EVERY.index(keys[-1])) for keys in made.ranges]
        assert all(ends[n][1] + 1 < ends[n + 1][0] for n in range(len(ends) - 1))


@pytest.mark.parametrize(("named", "lengths"), [(False, [100, 100, 100, 50]), (True, [350])])
def test_only_ranges_that_the_user_did_not_name_are_cut(named: bool, lengths: list[int]) -> None:
    made = plan(EVERY, EVERY, named=named)
    assert [len(keys) for keys in made.ranges] == lengths


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (plan(), "6 partitions are computed and replaced in one commit (a..f)"),
        (plan("a", "a"), "1 partition is computed and replaced in one commit (a)"),
        (
            plan(asked="abdef", fresh="e"),
            "4 of 5 partitions are computed and replaced in 3 commits (a..b, d, f)",
        ),
        (plan("", ""), "it has no partition in the past"),
        (plan(asked="ab", fresh="ab"), "none of 2 partitions is computed"),
        (
            plan(asked="ab", is_known=False),
            "those of 2 partitions that change in this run are replaced",
        ),
        (
            plan(EVERY, EVERY[::2], named=True),
            (
                "175 partitions are computed and replaced in 175 commits (k000, k002, k004, "
                "k006, k008, k010 and 169 more ranges)"
            ),
        ),
    ],
)
def test_a_plan_is_a_sentence(made: PartitionPlan, sentence: str) -> None:
    assert made.sentence == sentence


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("ab", "a..b"),
        ("abdgh", "a..b, d, g..h"),
        ("acegikm", "a, c, e, g, i, k and 1 more range"),
        ("acegikmo", "a, c, e, g, i, k and 2 more ranges"),
    ],
)
def test_partitions_are_named_by_ranges(keys: str, text: str) -> None:
    assert ranges_text("abcdefghijklmnop", keys) == text


def test_partitions_are_counted_in_words() -> None:
    assert [counted("a" * number) for number in range(3)] == [
        *("0 partitions", "1 partition", "2 partitions")
    ]
