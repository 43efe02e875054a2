"""The JVM's classes as PySpark names them, each looked up once."""

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject


def remember_classes(spark: SparkSession) -> None:
    """Let py4j remember which classes and packages of the JVM have been named.

    PySpark names them at every use (a column, a cast, a `selectExpr`), by short names and package
    by package, and asks the JVM each time. For what is no class the JVM looks into each of its
    four hundred jars, 1 ms to 3 ms; and PySpark asks so fifteen times to translate one error, also
    the one with which an iteration over a Java collection ends. Where a small table is refreshed in
    0.2 s, that is much.

    Only what exists is remembered. What begins with a capital letter and is no class may become
    one, by a jar that is added or by a `java_import`.

    Args:
        spark: A classic session; all sessions of its JVM gain.
    """
    view: JavaObject = spark.sparkContext._jvm
    if type(view) is JVMView:
        view.__class__ = _KnownView


def _remembered(place: object, name: str, found: JavaObject) -> JavaObject:
    if type(found) is JavaPackage and name.islower():
        found.__class__ = _KnownPackage
    if isinstance(found, (JavaClass, _KnownPackage)):
        vars(place)[name] = found
    return found


class _KnownView(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> JavaObject:
        return _remembered(self, name, super().__getattr__(name))


class _KnownPackage(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> JavaObject:
        return _remembered(self, name, super().__getattr__(name))
