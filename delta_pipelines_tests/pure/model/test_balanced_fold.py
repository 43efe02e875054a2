"""Expressions folded into a tree that is not deep."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.model.balanced_fold import balanced


def depth(tree: object) -> int:
    return 1 + max(map(depth, tree)) if isinstance(tree, tuple) else 0


@given(st.lists(st.text(), min_size=1, max_size=200))
def test_the_order_stays_as_reduce_has_it(parts):
    assert balanced(parts, lambda a, b: a + b) == reduce(lambda a, b: a + b, parts)


@pytest.mark.parametrize(("parts", "levels"), [(1, 0), (2, 1), (3, 2), (2000, 11), (2048, 11)])
def test_the_depth_grows_with_the_logarithm_of_the_parts(parts, levels):
    assert depth(balanced(list(range(parts)), lambda a, b: (a, b))) == levels
