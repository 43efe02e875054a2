"""Sessions and job tags for datasets that run side by side in one JVM."""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from py4j.clientserver import ClientServer
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, is_classic, items, optional
from delta_pipelines.errors import SessionError
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.security.redaction import Redaction

_INTERRUPT = "spark.job.interruptOnCancel"
_OF_DELTA = "spark.databricks.delta.properties.defaults."


def isolated_session(spark: SparkSession, kind: type[SparkSession] = SparkSession) -> SparkSession:
    """A session with its own settings, temporary views and current schema.

    Catalog, cached data and Spark context are shared; settings, views and the current schema start
    as a copy. `SparkSession.builder.getOrCreate()` still answers with the first session of the
    process. A Connect session, which has no copy of its own, is returned as it is.

    Args:
        spark: The session to copy.
        kind: What the copy is to be in Python.

    Example:
        >>> own = isolated_session(spark)
        >>> own.conf.set("spark.sql.shuffle.partitions", "7")
        >>> spark.conf.get("spark.sql.shuffle.partitions")
        '2'
    """
    if not is_classic(spark):
        return spark
    return kind(spark.sparkContext, spark._jsparkSession.cloneSession())


def drop_temporary_views(spark: SparkSession) -> None:
    """Drop the temporary views of a session of one's own, so that they hide no table.

    Args:
        spark: A copy from `isolated_session`: what it is a copy of keeps its views.
    """
    if is_classic(spark):
        catalog = spark._jsparkSession.sessionState().catalog()
        for view in items(catalog.listLocalTempViews("*")):
            catalog.dropTempView(view.table())


@contextmanager
def current_namespace(spark: SparkSession, catalog: str | None, schema: str) -> Iterator[None]:
    """Make a catalog and schema the session's current ones while the block runs.

    Args:
        spark: The session; its own current ones are restored whatever happens.
        catalog: Catalog, None to leave it.
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
    """Log the trace of an error that a run goes on after, for who looks at DEBUG; no credentials.

    Args:
        log: The module's logger.
        spark: The session in which it was raised, whose settings may hold credentials.
        error: The error.
    """
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", Redaction.of(settings_of(spark), os.environ).trace(error))


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session that are set, credentials among them, those of Hadoop included.

    Args:
        spark: A session; of a Connect session nothing is known.
    """
    if not is_classic(spark):
        return {}
    return settings_in(spark._jsparkSession.sessionState().conf())


def settings_in(conf: JavaObject) -> dict[str, str]:
    """As `settings_of`, of a session's `SQLConf`."""
    # One call of the JVM, where `spark.conf.getAll` makes several for each setting.
    between, pair = "\x01\x02", " -> "
    listed = str(conf.getAllConfs().mkString(between))
    entries = (entry.partition(pair) for entry in listed.split(between))
    return {key.strip("("): value for key, _, value in entries if key}


def is_on(spark: SparkSession, key: str, default: str) -> bool:
    """A setting that is `true` or `false`, as Spark reads it: in any case.

    Args:
        spark: The session.
        key: Name of the setting.
        default: What it is when nobody set it.
    """
    return str(spark.conf.get(key, default)).strip().lower() == "true"


def whole_number(spark: SparkSession, key: str, default: int) -> int:
    """A setting that is a whole number.

    Args:
        spark: The session.
        key: Name of the setting.
        default: What it is when nobody set it.

    Raises:
        SessionError: It is something else.
    """
    text = str(spark.conf.get(key, str(default))).strip()
    try:
        return int(text)
    except ValueError:
        raise SessionError(
            f"The setting {key} is {text!r}, and has to be a whole number."
        ) from None


def can_change(spark: SparkSession, key: str) -> bool:
    """Whether a setting counts when it is given to a session that runs.

    Spark's `isModifiable` knows what Spark, and Delta by then, have registered, but not Delta's
    defaults for the properties of new tables, which are named after the properties.

    Args:
        spark: The session.
        key: Name of the setting.

    Example:
        >>> can_change(spark, "spark.sql.ansi.enabled"), can_change(spark, "spark.driver.memory")
        (True, False)
    """
    return key.startswith(_OF_DELTA) or bool(spark.conf.isModifiable(key))


def set_or_unset(spark: SparkSession, key: str, value: str | None) -> None:
    """Give a session a setting for good.

    Args:
        spark: The session.
        key: Name of the setting.
        value: What it is from now on; None for what Spark takes when nobody sets it.
    """
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


def file_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of the machine's `spark-defaults.conf`, whatever has replaced them since.

    Args:
        spark: A classic session.
    """
    root = Jvm(spark).root
    read = root.org.apache.spark.SparkConf(False)
    root.org.apache.spark.util.Utils.loadDefaultSparkProperties(read, None)
    return {str(entry._1()): str(entry._2()) for entry in read.getAll()}


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Give a session another setting while the block runs.

    Args:
        spark: The session.
        key: Name of the setting.
        value: What it is meanwhile.
    """
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        set_or_unset(spark, key, before)


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Give a session other settings while the block runs.

    Args:
        spark: The session.
        values: What they are meanwhile, by key.
    """
    with ExitStack() as stack:
        for key, value in values.items():
            stack.enter_context(setting(spark, key, value))
        yield


@contextmanager
def settings_in_tasks(spark: SparkSession) -> Iterator[None]:
    """Let the tasks of a bare job see a session's settings while the block runs.

    A task that evaluates an expression asks for them (how to read a date, which time zone). The
    tasks of a query get them with it; those of a plan that is run by itself get the defaults.

    Source of the rule: Spark's `SQLExecution.withSQLConfPropagated`.

    Args:
        spark: A classic session.
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
    """Make a session the current thread's active one while the block runs.

    A new thread has no active session; Delta's internals then read the default session's settings,
    and user code that calls `SparkSession.getActiveSession()` finds None.

    After a block within another the other's session is active again, whatever the code within made
    active; which session that is, is known here and need not be asked of the JVM.

    Args:
        spark: The session; a Connect session needs nothing and gets nothing.
    """
    if not is_classic(spark):
        yield spark
        return
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
    """Make a session the active one of a thread of one's own, for good.

    Args:
        spark: The session; a Connect session needs nothing and gets nothing.
    """
    if is_classic(spark):
        _here.session = spark._jsparkSession
        Jvm(spark).static("org.apache.spark.sql.classic.SparkSession", "setActiveSession")(
            spark._jsparkSession
        )


def threads_are_apart(spark: SparkSession) -> bool:
    """True when threads can work with sessions of their own, each in a thread of the JVM.

    Args:
        spark: A session; a Connect session has no copies, and with `PYSPARK_PIN_THREAD=false`
            threads share those of the JVM.
    """
    return is_classic(spark) and isinstance(spark.sparkContext._gateway, ClientServer)


@contextmanager
def job_tag(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag every Spark job that this thread starts in the block, so that it can be cancelled.

    Args:
        spark: The session.
        tag: Any text without a comma.

    Example:
        >>> with job_tag(spark, "run-1/aviation.flights"):
        ...     spark.range(3).count()
        3
    """
    if not is_classic(spark):
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
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
    """Cancel the running jobs that carry a tag, from any thread.

    Args:
        spark: Any session of the same Spark context.
        tag: The tag given to `job_tag`.
    """
    if is_classic(spark):
        spark.sparkContext.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)
