"""Sessions and job tags for datasets that are refreshed in parallel in one JVM."""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path

from py4j.clientserver import ClientServer
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items, optional
from delta_pipelines.delta.jvm.scala_functions import chain, method
from delta_pipelines.errors import SessionError
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.security.redaction import Redaction

_INTERRUPT = "spark.job.interruptOnCancel"
_BETWEEN, _PAIR = "\x01\x02", " -> "
_OF_DELTA = "spark.databricks.delta.properties.defaults."


def isolated_session(spark: SparkSession, kind: type[SparkSession] = SparkSession) -> SparkSession:
    """Copy a session: with its own settings, temporary views and current schema.

    The copy shares the catalog, cached data and Spark context. Settings, views and current schema
    start with the values of the original. `SparkSession.builder.getOrCreate()` still returns the
    first session of the process.

    Args:
        kind: Python class of the copy.

    Example:
        >>> own = isolated_session(spark)
        >>> own.conf.set("spark.sql.shuffle.partitions", "7")
        >>> spark.conf.get("spark.sql.shuffle.partitions")
        '2'
    """
    return kind(spark.sparkContext, spark._jsparkSession.cloneSession())


def drop_temporary_views(spark: SparkSession) -> None:
    """Drop the temporary views of an isolated session, so that they do not hide a table.

    The session that it was copied from keeps its views.
    """
    catalog = spark._jsparkSession.sessionState().catalog()
    for view in items(catalog.listLocalTempViews("*")):
        catalog.dropTempView(view.table())


@contextmanager
def current_namespace(spark: SparkSession, catalog: str | None, schema: str) -> Iterator[None]:
    """Set the current catalog and schema of a session while the block runs.

    Args:
        spark: The session; its previous catalog and schema are always restored.
        catalog: Catalog; None keeps the current one.
        schema: Schema; must exist.
    """
    catalog_before = spark.catalog.currentCatalog()
    schema_before = spark.catalog.currentDatabase()
    try:
        if catalog is not None:
            spark.catalog.setCurrentCatalog(catalog)
        spark.catalog.setCurrentDatabase(quoted(schema))
        yield
    finally:
        spark.catalog.setCurrentCatalog(catalog_before)
        spark.catalog.setCurrentDatabase(quoted(schema_before))


def log_trace(log: logging.Logger, spark: SparkSession, error: Exception) -> None:
    """Log a non-fatal error's traceback at DEBUG, with the session's credentials redacted."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", Redaction.of(settings_of(spark), os.environ).trace(error))


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return all settings of a session that are set, including credentials and Hadoop's."""
    # One call to the JVM; `spark.conf.getAll` makes several for each setting.
    listed = str(_settings_as_text(spark._jvm).apply(spark._jsparkSession))
    entries = (entry.partition(_PAIR) for entry in listed.split(_BETWEEN))
    return {key.strip("("): value for key, _, value in entries if key}


@lru_cache(maxsize=1)
def _settings_as_text(view: JavaObject) -> JavaObject:
    """Return a function that writes all settings of a session as one text."""
    listed = method(view, "org.apache.spark.sql.internal.SQLConf", "getAllConfs")
    entries = "scala.collection.immutable.Map"
    text = method(view, entries, "mkString", ("java.lang.String", _BETWEEN))
    return chain(view, *conf_of_session(view), listed, text)


def conf_of_session(view: JavaObject) -> tuple[JavaObject, ...]:
    """Return the steps of a `chain` from a session to its `SQLConf`."""
    session = method(view, "org.apache.spark.sql.classic.SparkSession", "sessionState")
    return session, method(view, "org.apache.spark.sql.internal.SessionState", "conf")


def is_on(spark: SparkSession, key: str, default: str) -> bool:
    """Read a setting that is `true` or `false`, in any letter case, as Spark does."""
    return str(spark.conf.get(key, default)).strip().lower() == "true"


def whole_number(spark: SparkSession, key: str, default: int) -> int:
    """Read a setting that is an integer.

    Raises:
        SessionError: The value is not an integer.
    """
    text = str(spark.conf.get(key, str(default))).strip()
    try:
        return int(text)
    except ValueError:
        raise SessionError(f"The setting {key} is {text!r}, which is not an integer.") from None


def can_change(spark: SparkSession, key: str) -> bool:
    """Say whether a setting takes effect when it is set in a running session.

    Spark's `isModifiable` knows the settings that Spark, and by then Delta, have registered. It
    does not know Delta's defaults for the properties of new tables, because their names contain the
    property.

    Example:
        >>> can_change(spark, "spark.sql.ansi.enabled"), can_change(spark, "spark.driver.memory")
        (True, False)
    """
    return key.startswith(_OF_DELTA) or bool(spark.conf.isModifiable(key))


def set_or_unset(spark: SparkSession, key: str, value: str | None) -> None:
    """Set a setting, or unset it when `value` is None."""
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


def file_settings(spark: SparkSession) -> dict[str, str]:
    """Read the settings in the machine's `spark-defaults.conf`, without later changes."""
    root = Jvm(spark).root
    read = root.org.apache.spark.SparkConf(False)
    root.org.apache.spark.util.Utils.loadDefaultSparkProperties(read, None)
    return {str(entry._1()): str(entry._2()) for entry in read.getAll()}


def smallest_heap(spark: SparkSession) -> int:
    """Bytes of the heap of the driver or, on a cluster, of an executor, if that is smaller."""
    jvm = Jvm(spark)
    driver = int(jvm.root.java.lang.Runtime.getRuntime().maxMemory())
    if str(spark.sparkContext.master).startswith("local"):
        return driver
    return min(driver, int(jvm.session.sparkContext().executorMemory()) << 20)


def temporary_folder(spark: SparkSession) -> Path:
    """The folder of a Spark application's temporary files, on the driver; Spark deletes it."""
    return Path(str(spark.sparkContext._temp_dir))


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change one setting of a session while the block runs."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        set_or_unset(spark, key, before)


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change several settings of a session while the block runs."""
    with ExitStack() as stack:
        for key, value in values.items():
            stack.enter_context(setting(spark, key, value))
        yield


@contextmanager
def settings_in_tasks(spark: SparkSession) -> Iterator[None]:
    """Pass a session's settings to the tasks of a bare job while the block runs.

    A task that evaluates an expression reads settings (how to read a date, which time zone). Spark
    sends them with the tasks of a query, but not with the tasks of a plan that is executed
    directly: those get the defaults.

    Source of the rule: Spark's `SQLExecution.withSQLConfPropagated`.
    """
    context = spark.sparkContext._jsc.sc()
    before: JavaObject = context.getLocalProperties()
    with_settings = Jvm(spark).root.java.util.Properties()
    with_settings.putAll(before)
    with_settings.putAll(spark._jsparkSession.sessionState().conf().settings())
    context.setLocalProperties(with_settings)
    try:
        yield
    finally:
        context.setLocalProperties(before)


_here = threading.local()


@contextmanager
def active(spark: SparkSession) -> Iterator[SparkSession]:
    """Make a session the active one of the current thread while the block runs.

    A new thread has no active session. Delta's internals then read the settings of the default
    session, and user code that calls `SparkSession.getActiveSession()` gets None.

    After a nested block the session of the outer block is active again, even if code in the nested
    block activated another one. The outer session is remembered here, so the JVM is not asked for
    it.
    """
    static = partial(Jvm(spark).static, "org.apache.spark.sql.classic.SparkSession")
    make_active = static("setActiveSession")
    around: JavaObject | None = getattr(_here, "session", None)
    before = optional(static("getActiveSession")()) if around is None else around
    _here.session = spark._jsparkSession
    make_active(spark._jsparkSession)
    try:
        yield spark
    finally:
        _here.session = around
        if before is None:
            static("clearActiveSession")()
        else:
            make_active(before)


def activate(spark: SparkSession) -> None:
    """Make a session the active one of the current thread for good."""
    _here.session = spark._jsparkSession
    Jvm(spark).static("org.apache.spark.sql.classic.SparkSession", "setActiveSession")(
        spark._jsparkSession
    )


def threads_are_apart(spark: SparkSession) -> bool:
    """Say whether each Python thread can use its own session in its own JVM thread.

    False with `PYSPARK_PIN_THREAD=false`, where Python threads share the threads of the JVM.
    """
    return isinstance(spark.sparkContext._gateway, ClientServer)


@contextmanager
def job_tag(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag every Spark job that this thread starts in the block, so that it can be cancelled.

    Args:
        tag: Any text without a comma.

    Example:
        >>> with job_tag(spark, "run-1/aviation.flights"):
        ...     spark.range(3).count()
        3
    """
    context = spark.sparkContext
    before = context.getLocalProperty(_INTERRUPT)
    context.addJobTag(tag)
    context.setInterruptOnCancel(True)
    try:
        yield
    finally:
        context.removeJobTag(tag)
        context.setInterruptOnCancel(before == "true")


def cancel_tag(spark: SparkSession, tag: str) -> None:
    """Cancel the running jobs that have a tag of `job_tag`; callable from any thread."""
    spark.sparkContext.cancelJobsWithTag(tag)
