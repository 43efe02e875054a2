"""Streams that run side by side each keep py4j quiet until they end themselves."""

import logging

from delta_pipelines.delta.stream.stream_reader import quiet_callbacks

PY4J = logging.getLogger("py4j.clientserver")
MESSAGE = "There was an exception while executing the Python Proxy on the Python Side."


def test_the_first_stream_to_end_leaves_the_others_quiet(caplog):
    first, second = quiet_callbacks(), quiet_callbacks()
    with second:
        with first:
            PY4J.error(MESSAGE)
        PY4J.error(MESSAGE)
        PY4J.error("something else")
    assert [record.getMessage() for record in caplog.records] == ["something else"]
    PY4J.error(MESSAGE)
    assert caplog.records[-1].getMessage() == MESSAGE
