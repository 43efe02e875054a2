"""Key problems as sentences."""

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from delta_pipelines.merge.key_checks import KeyProblems, render_keys


def test_no_problem_is_false_and_empty():
    problems = KeyProblems(("icao",), None, rows=7)
    assert not problems
    assert str(problems) == ""


def test_null_and_duplicate_keys_have_samples_and_remedies():
    problems = KeyProblems(
        ("icao", "day"),
        None,
        rows=1200,
        null_keys=1,
        duplicate_keys=2,
        null_samples=(("LHR", None),),
        duplicate_samples=(("FRA", 1), ("JFK", 2)),
    )
    assert problems
    assert str(problems) == (
        "1 row of 1,200 has NULL in a key column, for example (icao='LHR', day=NULL); "
        "filter them out or fill the key. 2 keys have more than one row, for example "
        "(icao='FRA', day=1), (icao='JFK', day=2); name a sequence_by column or keep one row "
        "per key."
    )


def test_a_sequence_that_does_not_decide_is_named():
    problems = KeyProblems(("icao",), "seen_on", 3, duplicate_keys=1, duplicate_samples=(("FRA",),))
    assert "1 key has rows that differ at the same greatest seen_on" in str(problems)


def test_structs_and_bytes_are_readable():
    sample = (Row(x=1, y=None), bytearray(b"\x01\xff"))
    assert render_keys(["p", "b"], [sample]) == "(p=(x=1, y=NULL), b=0x01ff)"


@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.lists(st.tuples(st.one_of(st.none(), st.integers(), st.text(), st.binary())), max_size=5),
)
def test_every_problem_has_a_sentence(nulls, duplicates, samples):
    problems = KeyProblems(
        ("k",),
        None,
        10,
        null_keys=nulls,
        duplicate_keys=duplicates,
        null_samples=tuple(samples),
        duplicate_samples=tuple(samples),
    )
    assert bool(problems) == bool(str(problems)) == bool(nulls or duplicates)
    assert ("NULL in a key column" in str(problems)) == bool(nulls)
    assert ("more than one row" in str(problems)) == bool(duplicates)
