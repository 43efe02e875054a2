"""A file's statistics are changed as text: no number of them is read and written again."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.merge.statistics_json import have_equal_values, with_wide_bounds

NAMES = st.sampled_from(["tightBounds", "a", '"tightBounds":true', "\\", "{", '"', "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", '"}', "\\", "{[", "é"]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"tightBounds":false}'),
        ('{"numRecords":2}', '{"numRecords":2,"tightBounds":false}'),
        ('{ "tightBounds" : true ,"x":1}', '{ "tightBounds" : false ,"x":1}'),
        ('{"tightBounds":null}', '{"tightBounds":false}'),
        (
            '{"minValues":{"tightBounds":true,"d":3.333333333333333333},"tightBounds":true}',
            '{"minValues":{"tightBounds":true,"d":3.333333333333333333},"tightBounds":false}',
        ),
    ],
)
def test_only_the_bounds_of_the_file_are_changed(before, after):
    assert with_wide_bounds(before) == after
    assert with_wide_bounds(after) == after


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from([None, True, False]))
def test_only_the_bounds_flag_changes_whatever_the_column_names(statistics, bounds):
    statistics = {key: value for key, value in statistics.items() if key != "tightBounds"}
    before = {**statistics, "tightBounds": bounds} if bounds is not None else statistics
    for text in (json.dumps(before), json.dumps(before, ensure_ascii=False, indent=1)):
        assert json.loads(with_wide_bounds(text)) == {**statistics, "tightBounds": False}


def test_numbers_are_compared_by_their_value():
    exact = Decimal("3.333333333333333333")
    assert have_equal_values(f'{{"d":{exact}}}', '{"d":3.3333333333333333330}')
    assert not have_equal_values(f'{{"d":{exact}}}', f'{{"d":{float(exact)}}}')
    assert have_equal_values('{"d":1e2,"s":"x"}', '{"s":"x","d":100}')
