"""Call Spark's and Delta's Scala classes from Python.

py4j knows neither Scala's default arguments nor its collections. So every call passes every
argument, and this module converts the collections.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession

JavaObject: TypeAlias = Any
"""An object of the JVM; py4j has no types."""


_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"


def is_classic(spark: SparkSession) -> bool:
    """Say whether the JVM of a session is reachable (over Spark Connect it is not).

    Example:
        >>> is_classic(spark)
        True
    """
    return hasattr(spark, "_jsparkSession")


class _Connection(threading.local):
    """A thread's connection to the JVM."""

    gateway: object = None
    """The gateway for which this thread's connection already sends without delay."""


_CONNECTION = _Connection()


def _have_long_answers_sent_at_once(spark: SparkSession) -> None:
    """Make long answers of the JVM to this thread 40 ms faster, such as a schema of 100 columns.

    py4j writes an answer above 8 KiB in two parts. TCP (Nagle's algorithm) delays the second part
    until the first is acknowledged, and Linux delays the acknowledgement. Two kinds of threads keep
    the delay: threads that share their connections (`PYSPARK_PIN_THREAD=false`), and threads that
    connected before PySpark started its callback server, because py4j then replaces its client and
    the new client does not know their connections.
    """
    gateway = spark.sparkContext._gateway
    if _CONNECTION.gateway is gateway:
        return
    _CONNECTION.gateway = gateway
    if isinstance(gateway, ClientServer):
        connections = gateway.java_gateway_server.getCallbackClient()
        connection = connections.getPerThreadConnection()
        if connection is not None:
            connection.getSocket().setTcpNoDelay(True)


class Packages:
    """Java packages as attributes, down to a class (a name that begins with a capital letter).

    py4j asks the JVM about each part of a dotted name. For a part that is not a class, the JVM
    searches every jar, once for each import of PySpark: about 3 ms, a sixth of the CPU time of a
    small run. This class asks for a class by its full name, once.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        prefix: The package so far, with a trailing dot.

    Example:
        >>> Packages(spark._jvm).java.lang.Math.abs(-1)
        1
    """

    def __init__(self, view: JavaObject, prefix: str = "") -> None:
        self._view = view
        self._prefix = prefix

    def __getattr__(self, name: str) -> JavaObject:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            return _java_class(self._view, self._prefix + name)
        return Packages(self._view, f"{self._prefix}{name}.")

    def type(self, name: str) -> JavaObject:
        """Return a class by its full name; a nested class as the JVM names it (`Outer$Inner`)."""
        return _java_class(self._view, self._prefix + name)


@lru_cache(maxsize=512)
def _java_class(view: JavaObject, name: str) -> JavaObject:
    found = getattr(view, name)
    if not isinstance(found, JavaClass):
        raise AttributeError(f"The JVM has no class {name}.")
    return found


@lru_cache(maxsize=512)
def _scala_object(view: JavaObject, name: str) -> JavaObject:
    return getattr(_java_class(view, f"{name}$"), "MODULE$")


@lru_cache(maxsize=512)
def _static_method(view: JavaObject, name: str, method: str) -> JavaObject:
    return getattr(_java_class(view, name), method)


class Jvm:
    """Scala idioms for one classic session."""

    def __init__(self, spark: SparkSession) -> None:
        _have_long_answers_sent_at_once(spark)
        self.spark = spark
        self.session: JavaObject = spark._jsparkSession
        self.root = Packages(spark._jvm)

    @property
    def delta(self) -> JavaObject:
        """Delta's package."""
        return self.root.org.apache.spark.sql.delta

    @property
    def none(self) -> JavaObject:
        """Scala's `None`."""
        return self.object("scala.None")

    def some(self, value: object) -> JavaObject:
        """Return a Scala `Some`, or `None` for None."""
        return self.static("scala.Option", "apply")(value)

    def sequence(self, values: Iterable[object]) -> JavaObject:
        """Return an immutable Scala `Seq`."""
        return scala_sequence(self.spark._jvm, values)

    def sequence_of(self, listed: JavaObject) -> JavaObject:
        """Convert a Java list to an immutable Scala `Seq`."""
        return self.static(_PYTHON_UTILS, "toSeq")(listed)

    def texts(self, values: JavaObject) -> list[str]:
        """Return the elements of a Java array as texts; none may contain a line break."""
        sequence = self.root.scala.collection.immutable.ArraySeq.unsafeWrapArray(values)
        return [text for text in str(sequence.mkString("\n")).split("\n") if text]

    def array(self, element: str, values: Sequence[object]) -> JavaObject:
        """Return a Java array of a class by its full name."""
        gateway: JavaObject = self.spark.sparkContext._gateway
        made = gateway.new_array(self.type(element), len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def mapping(self, entries: Mapping[str, object]) -> JavaObject:
        """Return an immutable Scala `Map`."""
        table = self.root.java.util.HashMap()
        for key, value in entries.items():
            table.put(key, value)
        return self.static(_PYTHON_UTILS, "toScalaMap")(table)

    def object(self, name: str) -> JavaObject:
        """Return the instance of a Scala `object` or companion by class name; looked up once."""
        return _scala_object(self.spark._jvm, name)

    def type(self, name: str) -> JavaObject:
        """Return a class by its full name; a nested class as the JVM names it (`Outer$Inner`)."""
        return self.root.type(name)

    def static(self, name: str, method: str) -> JavaObject:
        """Return a static method; cached, because py4j asks the JVM at every access."""
        return _static_method(self.spark._jvm, name, method)

    def private_field(self, owner: str, name: str) -> JavaObject:
        """Return a private field, made accessible, as a `java.lang.reflect.Field`."""
        loader = self.static("java.lang.Thread", "currentThread")().getContextClassLoader()
        declared = self.static("java.lang.Class", "forName")(owner, True, loader)
        field = declared.getDeclaredField(name)
        field.setAccessible(True)
        return field

    def frame(self, dataset: JavaObject) -> DataFrame:
        """Wrap a JVM `Dataset[Row]` in a PySpark DataFrame."""
        return DataFrame(dataset, self.spark)

    def rows_of(self, plan: JavaObject) -> DataFrame:
        """Return a PySpark DataFrame of a logical plan; a command runs at once."""
        of_rows = self.static("org.apache.spark.sql.classic.Dataset", "ofRows")
        return self.frame(of_rows(self.session, plan))


def scala_sequence(view: JavaObject, values: Iterable[object]) -> JavaObject:
    """Return an immutable Scala `Seq`; `view` is py4j's view of the JVM (`SparkContext._jvm`)."""
    listed = _java_class(view, "java.util.ArrayList")()
    for value in values:
        listed.add(value)
    return _static_method(view, _PYTHON_UTILS, "toSeq")(listed)


def optional(option: JavaObject) -> Any:
    """Return the value of a Scala `Option`, or None."""
    return option.get() if option.isDefined() else None


def items(sequence: JavaObject) -> list[Any]:
    """Return the elements of a Scala `Seq`; one round trip to the JVM for each."""
    return [sequence.apply(index) for index in range(sequence.size())]


def entries(table: JavaObject) -> dict[str, Any]:
    """Return the entries of a Scala `Map[String, _]`; two round trips to the JVM for each."""
    found = {}
    iterator = table.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        found[str(pair._1())] = pair._2()
    return found


def class_name(thing: JavaObject) -> str:
    """Return the short name of an object's class."""
    return str(thing.getClass().getSimpleName())


def plan_name(node: JavaObject) -> str:
    """Return the short class name of a plan or an expression, in one round trip if possible."""
    return str(node.productPrefix()) or class_name(node)


def is_a(thing: JavaObject, ancestor: str) -> bool:
    """Say whether an object's class is, or extends, the class with this short name."""
    kind = thing.getClass()
    while kind is not None:
        if kind.getSimpleName() == ancestor:
            return True
        kind = kind.getSuperclass()
    return False
