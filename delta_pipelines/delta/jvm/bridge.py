"""How Python talks to Spark's and Delta's Scala classes, and whether it can.

py4j knows neither Scala's default arguments nor its collections: every argument is passed, and
collections are converted here, once.
"""

import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession

JavaObject: TypeAlias = Any
"""An object of the JVM; py4j has no types."""


_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"


def is_classic(spark: SparkSession) -> bool:
    """Say whether a session has a JVM in reach (Spark Connect has none).

    Args:
        spark: Any session, classic or Connect.

    Example:
        >>> is_classic(spark)
        True
    """
    return hasattr(spark, "_jsparkSession")


class _Connection(threading.local):
    """A thread's connection to the JVM."""

    gateway: object = None
    """The gateway whose connection of this thread holds nothing back."""


_CONNECTION = _Connection()


def _have_long_answers_sent_at_once(spark: SparkSession) -> None:
    """Make this thread's long answers 40 ms faster: the schema of a hundred columns is one.

    py4j writes an answer above 8 KiB in two parts, and TCP (Nagle's algorithm) holds the second one
    back until the first is acknowledged, with which Linux takes its time. Threads that share their
    connections (`PYSPARK_PIN_THREAD=false`) stay as they are, and so do those that connected before
    PySpark's server of callbacks was started: py4j's client was replaced then, and the new one does
    not know them.
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
    """Java's packages as attributes, down to a class: a name that begins with a capital letter.

    py4j asks the JVM what each part of a dotted name is, and for a part that is no class the JVM
    looks into every jar, once for each of PySpark's imports: some 3 ms, a sixth of a small run's
    CPU time. Here a class is asked for by its full name, once.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        prefix: The package so far, with a dot at its end.

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
        """A class by its full name; nested ones as the JVM names them (`Outer$Inner`)."""
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
    """The Scala idioms of one session.

    Args:
        spark: A classic session.
    """

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
        """A Scala `Some`, or `None` for None."""
        return self.static("scala.Option", "apply")(value)

    def sequence(self, values: Iterable[object]) -> JavaObject:
        """An immutable Scala `Seq`."""
        return scala_sequence(self.spark._jvm, values)

    def sequence_of(self, listed: JavaObject) -> JavaObject:
        """An immutable Scala `Seq` of a Java list."""
        return self.static(_PYTHON_UTILS, "toSeq")(listed)

    def texts(self, values: JavaObject) -> list[str]:
        """The texts of a Java array's elements, none of which has a line break."""
        sequence = self.root.scala.collection.immutable.ArraySeq.unsafeWrapArray(values)
        return [text for text in str(sequence.mkString("\n")).split("\n") if text]

    def mapping(self, entries: Mapping[str, object]) -> JavaObject:
        """An immutable Scala `Map`."""
        table = self.root.java.util.HashMap()
        for key, value in entries.items():
            table.put(key, value)
        return self.static(_PYTHON_UTILS, "toScalaMap")(table)

    def object(self, name: str) -> JavaObject:
        """The instance of a Scala `object` or companion, by its full class name; asked for once."""
        return _scala_object(self.spark._jvm, name)

    def type(self, name: str) -> JavaObject:
        """A class by its full name; nested ones as the JVM names them (`Outer$Inner`)."""
        return self.root.type(name)

    def static(self, name: str, method: str) -> JavaObject:
        """A static method of a class; py4j asks the JVM at every access whether there is one."""
        return _static_method(self.spark._jvm, name, method)

    def private_field(self, owner: str, name: str) -> JavaObject:
        """A field of a class, by the names of both, as `java.lang.reflect` has it; open to us."""
        loader = self.static("java.lang.Thread", "currentThread")().getContextClassLoader()
        declared = self.static("java.lang.Class", "forName")(owner, True, loader)
        field = declared.getDeclaredField(name)
        field.setAccessible(True)
        return field

    def frame(self, dataset: JavaObject) -> DataFrame:
        """A PySpark frame around a JVM `Dataset[Row]`."""
        return DataFrame(dataset, self.spark)

    def rows_of(self, plan: JavaObject) -> DataFrame:
        """A PySpark frame of the rows of a logical plan; a command runs at once."""
        of_rows = self.static("org.apache.spark.sql.classic.Dataset", "ofRows")
        return self.frame(of_rows(self.session, plan))


def scala_sequence(view: JavaObject, values: Iterable[object]) -> JavaObject:
    """An immutable Scala `Seq` in a JVM, given py4j's view of it (`SparkContext._jvm`)."""
    listed = _java_class(view, "java.util.ArrayList")()
    for value in values:
        listed.add(value)
    return _static_method(view, _PYTHON_UTILS, "toSeq")(listed)


def optional(option: JavaObject) -> Any:
    """The value of a Scala `Option`, or None."""
    return option.get() if option.isDefined() else None


def items(sequence: JavaObject) -> list[Any]:
    """The elements of a Scala `Seq`; one round trip to the JVM each."""
    return [sequence.apply(index) for index in range(sequence.size())]


def entries(table: JavaObject) -> dict[str, Any]:
    """The entries of a Scala `Map[String, _]`; two round trips to the JVM each."""
    found = {}
    iterator = table.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        found[str(pair._1())] = pair._2()
    return found


def class_name(thing: JavaObject) -> str:
    """The short name of an object's class."""
    return str(thing.getClass().getSimpleName())


def plan_name(node: JavaObject) -> str:
    """The short name of a plan's or an expression's class, in one round trip where it says so."""
    return str(node.productPrefix()) or class_name(node)


def is_a(thing: JavaObject, ancestor: str) -> bool:
    """Say whether an object's class is, or extends, the class of a short name."""
    kind = thing.getClass()
    while kind is not None:
        if kind.getSimpleName() == ancestor:
            return True
        kind = kind.getSuperclass()
    return False
