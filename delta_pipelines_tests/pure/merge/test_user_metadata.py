"""The mark that a merge leaves in its commit."""

import json

from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.merge.commit_lookup import merge_user_metadata, whole_numbers


@given(st.dictionaries(st.text(), st.integers()), st.one_of(st.none(), st.text()))
def test_everything_the_caller_said_is_kept(facts, session_text):
    facts = {k: v for k, v in facts.items() if k not in ("merge_token", "user_metadata")}
    content = json.loads(merge_user_metadata("f3", facts, session_text))
    assert content.pop("merge_token") == "f3"
    if session_text is None:
        assert content == facts
    else:
        assert content == {**facts, "user_metadata": session_text}


def test_only_whole_numbers_are_metrics():
    metadata = {"numSourceRows": "3", "delta": "-1", "note": "x", "share": "0.5", "empty": ""}
    assert whole_numbers(metadata) == {"numSourceRows": 3, "delta": -1}
