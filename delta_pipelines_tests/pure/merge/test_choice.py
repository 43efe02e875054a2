"""Which executor runs, and why."""

import pytest

from delta_pipelines.errors import MergeError
from delta_pipelines.merge.choice import EXECUTORS, check_executor, choose_executor


@pytest.mark.parametrize("name", EXECUTORS)
def test_known_executors_are_accepted_and_something_runs(name: str):
    check_executor(name, "air.airports")
    assert choose_executor(name).executor == "native"


def test_reason_says_what_became_of_the_request():
    assert choose_executor("native").reason == "native was asked for"
    assert choose_executor("classic").reason.startswith("classic executor does not exist")
    assert choose_executor("insert_only").reason.startswith("insert_only executor does not exist")


@pytest.mark.parametrize("name", ["", "Native", "fast"])
def test_unknown_executor_is_a_merge_error_and_a_value_error(name: str):
    with pytest.raises(MergeError, match=r"air\.airports.*no merge executor.*'native'") as caught:
        check_executor(name, "air.airports")
    assert isinstance(caught.value, ValueError)
    assert caught.value.dataset == "air.airports"
