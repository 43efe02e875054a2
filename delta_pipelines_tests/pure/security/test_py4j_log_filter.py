"""py4j's log has every word that goes to the JVM: those that are credentials are hidden."""

import logging
import threading
from collections.abc import Callable

import pytest

from delta_pipelines.security.py4j_log_filter import hide_credentials
from delta_pipelines.security.redaction import Redaction

CLIENT = logging.getLogger("py4j.clientserver")
GATEWAY = logging.getLogger("py4j.java_gateway")


def test_requests_and_answers_are_logged_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hide_credentials(Redaction(frozenset(["known-secret"])))
    with caplog.at_level(logging.DEBUG):
        CLIENT.debug("Command to send: %s", "c\no12\noption\nspassword\nshunter\ne\n")
        CLIENT.debug("Command to send: %s", "c\no12\nset\nsfs.s3a.secret.key\nsabc\ne\n")
        CLIENT.debug("Command to send: %s", "c\no12\nset\nsurl\nspassword\nsabcd\ne\n")
        CLIENT.debug("Command to send: %s", "c\no12\ngetToken\ni5\nsplain\ne\n")
        GATEWAY.debug("Answer received: %s", "!ysknown-secret")
        CLIENT.info("Closing %d connections", 2)
    assert logged_here(caplog) == [
        "Command to send: c\no12\noption\nspassword\ns***\ne\n",
        "Command to send: c\no12\nset\nsfs.s3a.secret.key\ns***\ne\n",
        "Command to send: c\no12\nset\nsurl\nspassword\ns***\ne\n",
        "Command to send: c\no12\ngetToken\ni5\nsplain\ne\n",
        "Answer received: !ys***",
        "Closing 2 connections",
    ]


def test_an_answer_to_a_question_for_a_credential_is_hidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hide_credentials(Redaction())
    with caplog.at_level(logging.DEBUG):
        CLIENT.debug("Command to send: %s", "c\no12\nget\nsfs.s3a.secret.key\ne\n")
        in_another_thread(lambda: CLIENT.debug("Answer received: %s", "!ysof another thread"))
        CLIENT.debug("Answer received: %s", "!yshunter")
        CLIENT.debug("Command to send: %s", "c\no12\nget\nsfs.s3a.endpoint\ne\n")
        CLIENT.debug("Answer received: %s", "!yshere")
    assert logged_here(caplog)[1:3] == [
        "Answer received: !ysof another thread",
        "Answer received: !ys***",
    ]
    assert logged_here(caplog)[-1] == "Answer received: !yshere"


def logged_here(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of this file alone: py4j itself may have a JVM to talk to."""
    return [record.getMessage() for record in caplog.records if record.pathname == __file__]


def in_another_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_next_session_hides_its_own_too(caplog: pytest.LogCaptureFixture) -> None:
    for secret in ("of-the-first", "of-the-second"):
        hide_credentials(Redaction(frozenset([secret])))
    assert CLIENT.filters == GATEWAY.filters
    assert len(CLIENT.filters) == 1
    with caplog.at_level(logging.DEBUG):
        CLIENT.debug("of-the-second of-the-first")
    assert logged_here(caplog) == ["*** ***"]
