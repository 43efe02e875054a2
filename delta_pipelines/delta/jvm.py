"""How Python talks to Spark's and Delta's Scala classes, and whether it can.

py4j knows neither Scala's default arguments nor its collections: every argument is passed, and
collections are converted here, once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

JavaObject: TypeAlias = Any
"""An object of the JVM; py4j has no types."""


def is_classic(spark: SparkSession) -> bool:
    """Say whether a session has a JVM in reach (Spark Connect has none).

    Args:
        spark: Any session, classic or Connect.

    Example:
        >>> is_classic(spark)
        True
    """
    return hasattr(spark, "_jsparkSession")


class Jvm:
    """The Scala idioms of one session.

    Args:
        spark: A classic session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.session: JavaObject = spark._jsparkSession
        root: JavaObject = spark._jvm
        self.root = root
        self.delta: JavaObject = root.org.apache.spark.sql.delta
        self.none: JavaObject = root.scala.Option.empty()

    def some(self, value: object) -> JavaObject:
        """A Scala `Some`, or `None` for None."""
        return self.root.scala.Option.apply(value)

    def sequence(self, values: Iterable[object]) -> JavaObject:
        """An immutable Scala `Seq`."""
        listed = self.root.java.util.ArrayList()
        for value in values:
            listed.add(value)
        return self.root.PythonUtils.toSeq(listed)

    def mapping(self, entries: Mapping[str, object]) -> JavaObject:
        """An immutable Scala `Map`."""
        table = self.root.java.util.HashMap()
        for key, value in entries.items():
            table.put(key, value)
        return self.root.PythonUtils.toScalaMap(table)

    def object(self, name: str) -> JavaObject:
        """The instance of a Scala `object` or companion, by its full class name."""
        return getattr(self.type(f"{name}$"), "MODULE$")

    def type(self, name: str) -> JavaObject:
        """A class by its full name; nested ones as the JVM names them (`Outer$Inner`)."""
        found = self.root
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def frame(self, dataset: JavaObject) -> DataFrame:
        """A PySpark frame around a JVM `Dataset[Row]`."""
        return DataFrame(dataset, self.spark)


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


def is_a(thing: JavaObject, ancestor: str) -> bool:
    """Say whether an object's class is, or extends, the class of a short name."""
    kind = thing.getClass()
    while kind is not None:
        if kind.getSimpleName() == ancestor:
            return True
        kind = kind.getSuperclass()
    return False
