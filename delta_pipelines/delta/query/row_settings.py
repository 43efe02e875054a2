"""Session settings that can change the rows of a query, and the versions of the engine.

`row_setting_rules.py` says which settings these are. A dataset's own `spark_conf` counts as a
whole, as part of its definition.
"""

from functools import lru_cache
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.jvm.scala_functions import chain, method
from delta_pipelines.delta.jvm.sessions import conf_of_session, settings_of
from delta_pipelines.delta.row_setting_rules import TIME_ZONE, counts


def row_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a classic session that are set and can change rows.

    Returns:
        Value by full name; always with the time zone (the machine's by default).
    """
    found = {name: value for name, value in settings_of(spark).items() if counts(name)}
    return {**found, TIME_ZONE: str(_time_zone(spark._jvm).apply(spark._jsparkSession))}


@lru_cache(maxsize=1)
def _time_zone(view: JavaObject) -> JavaObject:
    """Return a function that gives the time zone of a session."""
    zone = method(view, "org.apache.spark.sql.internal.SQLConf", "sessionLocalTimeZone")
    return chain(view, *conf_of_session(view), zone)


def registered_settings(spark: SparkSession) -> list[str]:
    """Return the names of all settings of this Spark and its extensions, also internal ones."""
    registered = Jvm(spark).object("org.apache.spark.sql.internal.SQLConf").getConfigEntries()
    return sorted(str(entry.key()) for entry in registered.toArray())


_engines: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


def engine(spark: SparkSession) -> str:
    """Return the versions of Spark and Delta, as text; cached for each Spark context."""
    if spark.sparkContext not in _engines:
        delta = Jvm(spark).object("io.delta.package").VERSION()
        _engines[spark.sparkContext] = f"Spark {spark.version}, Delta {delta}"
    return _engines[spark.sparkContext]
