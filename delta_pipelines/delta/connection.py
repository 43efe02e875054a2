"""What a thread's connection to the JVM is given, so that its calls take no longer than need be."""

import threading
from collections.abc import Callable
from typing import Any

from py4j.clientserver import ClientServer
from pyspark import SparkContext

METHODS = 1_000
"""How many methods a connection remembers how to call; a whole plan takes some hundred and fifty.
py4j remembers a hundred, and drops the one that was not used for longest: who calls more of them in
turn has each one looked up among all methods of its class, every time. That was a fifth of the time
of a rerun with nothing changed."""
_REFLECTION = "py4j.reflection"


class _Connection(threading.local):
    """A thread's connection to the JVM."""

    gateway: object = None
    """The gateway whose connection of this thread has been prepared."""


_CONNECTION = _Connection()


def prepare_connection(context: SparkContext, private_field: Callable[[str, str], Any]) -> None:
    """Prepare this thread's connection, once.

    Threads that share their connections (`PYSPARK_PIN_THREAD=false`) stay as they are.

    Args:
        context: That the JVM belongs to.
        private_field: Gives a field of a class by the names of both.
    """
    gateway = context._gateway
    if _CONNECTION.gateway is gateway:
        return
    _CONNECTION.gateway = gateway
    if isinstance(gateway, ClientServer):
        _have_long_answers_sent_at_once(gateway)
        _have_methods_remembered(private_field)


def _have_long_answers_sent_at_once(gateway: ClientServer) -> None:
    """Make this thread's long answers 40 ms faster: the schema of a hundred columns is one.

    py4j writes an answer above 8 KiB in two parts, and TCP (Nagle's algorithm) holds the second one
    back until the first is acknowledged, with which Linux takes its time. A thread that connected
    before PySpark's server of callbacks was started stays as it is: py4j's client was replaced
    then, and the new one does not know it.
    """
    connection = gateway.java_gateway_server.getCallbackClient().getPerThreadConnection()
    if connection is not None:
        connection.getSocket().setTcpNoDelay(True)


def _have_methods_remembered(private_field: Callable[[str, str], Any]) -> None:
    """Let py4j remember the methods that this thread calls.

    Its store belongs to the JVM's thread, which serves this one alone; so do these calls.
    """
    stores = private_field(f"{_REFLECTION}.ReflectionEngine", "cacheHolder").get(None)
    private_field(f"{_REFLECTION}.LRUCache", "cacheSize").setInt(stores.get(), METHODS)
