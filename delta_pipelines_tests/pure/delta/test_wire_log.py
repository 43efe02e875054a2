"""py4j's log has every word that goes to the JVM: those that are credentials are hidden."""

import logging

import pytest

from delta_pipelines.delta.wire_log import hide_credentials
from delta_pipelines.redaction import Redaction

CLIENT = logging.getLogger("py4j.clientserver")
GATEWAY = logging.getLogger("py4j.java_gateway")


def test_what_is_sent_and_answered_is_logged_without_credentials(
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
    assert [record.getMessage() for record in caplog.records] == [
        "Command to send: c\no12\noption\nspassword\ns***\ne\n",
        "Command to send: c\no12\nset\nsfs.s3a.secret.key\ns***\ne\n",
        "Command to send: c\no12\nset\nsurl\nspassword\ns***\ne\n",
        "Command to send: c\no12\ngetToken\ni5\nsplain\ne\n",
        "Answer received: !ys***",
        "Closing 2 connections",
    ]


def test_the_next_session_hides_its_own(caplog: pytest.LogCaptureFixture) -> None:
    for secret in ("of-the-first", "of-the-second"):
        hide_credentials(Redaction(frozenset([secret])))
    assert len(CLIENT.filters) == len(GATEWAY.filters) == 1
    with caplog.at_level(logging.DEBUG):
        CLIENT.debug("of-the-second of-the-first")
    assert caplog.messages == ["*** of-the-first"]
