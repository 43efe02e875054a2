"""Hive's tables in a PostgreSQL database, made before Spark's catalog first looks for them.

Made by Hive itself, when it first needs each, they hang it: DataNucleus creates the next table on
a second connection, which waits for a lock of its own open transaction.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext

from delta_pipelines.delta.jvm.bridge import JavaObject
from delta_pipelines.system.postgres_catalog import (
    DRIVER,
    CatalogServerError,
    PostgresCatalog,
    connection_problem,
)

log = logging.getLogger(__name__)

MODEL = "org.apache.hadoop.hive.metastore.model"
HIVE_SCHEMA = "2.3.0"
"""Version of the metastore's schema in the Hive that Spark 4.2 holds."""
LOCK_KEY = 0x64656C7461  # "delta"
"""Key of the advisory lock under which the schema is made."""

_STORED_CLASS = re.compile(r'<class name="(M\w+)"[^>]*\btable=')
_PASSWORD = "javax.jdo.option.ConnectionPassword"


@contextmanager
def opened_metastore(config: Mapping[str, str], catalog: PostgresCatalog) -> Iterator[None]:
    """Start Spark's context and make the metastore's schema if it is missing.

    The block is to open the catalog: until it ends, no other process makes the schema or opens a
    catalog that is new, since Hive writes its first rows then. A complete schema costs one query.

    Args:
        config: The session's whole configuration; no context is active.
        catalog: The database.

    Raises:
        CatalogServerError: The server is not there or lets this user not in; says what to do.
    """
    settings = SparkConf()
    for key, value in config.items():
        settings.set(key, value)
    context = SparkContext.getOrCreate(settings)
    jvm: JavaObject = context._jvm
    secret = catalog.secret()
    if secret is not None:
        # Not as a setting of Spark: those stand in the command line of the JVM and in its UI.
        context._jsc.hadoopConfiguration().set(_PASSWORD, secret)
    # Hive's connection pool sees only drivers of the JVM's own class path: Spark's wrapper is.
    jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
    with _connection(jvm, catalog, secret) as connection:
        if _is_complete(connection):
            yield
            return
        _execute(connection, f"SELECT pg_advisory_lock({LOCK_KEY})")
        if _is_complete(connection):
            _execute(connection, f"SELECT pg_advisory_unlock({LOCK_KEY})")
            yield
            return
        # The lock ends with the connection, however this process ends.
        started = time.monotonic()
        classes = _create_schema(jvm, catalog, secret)
        yield
        _complete(connection, classes)
        log.info("Made the catalog in %s in %.1f s.", catalog.url, time.monotonic() - started)


@contextmanager
def _connection(
    jvm: JavaObject, catalog: PostgresCatalog, secret: str | None
) -> Iterator[JavaObject]:
    properties = jvm.java.util.Properties()
    properties.setProperty("user", catalog.user)
    if secret is not None:
        properties.setProperty("password", secret)
    with _clear_errors(catalog):
        connection = jvm.org.postgresql.Driver().connect(catalog.jdbc_url, properties)
    try:
        with _clear_errors(catalog):
            yield connection
    finally:
        connection.close()


@contextmanager
def _clear_errors(catalog: PostgresCatalog) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        for _ in range(20):
            if thrown is None or thrown.getClass().getName().endswith("SQLException"):
                break
            thrown = thrown.getCause()
        state = thrown.getSQLState() if thrown is not None else None
        said = (thrown or error.java_exception).getMessage() or type(error).__name__
        # Without the Java error as the cause: it may hold what the driver was given.
        raise CatalogServerError(
            connection_problem(catalog, state, said),
            transient=state is not None and state.startswith(("08", "53", "57")),
        ) from None


def _is_complete(connection: JavaObject) -> bool:
    """The version is the last thing that is written, here as by Hive's own schematool."""
    if _first(connection, "SELECT to_regclass('\"VERSION\"')::text") is None:
        return False
    return _first(connection, 'SELECT "SCHEMA_VERSION" FROM "VERSION" LIMIT 1') is not None


def _create_schema(jvm: JavaObject, catalog: PostgresCatalog, secret: str | None) -> list[str]:
    """Make every table, index and constraint that is missing; gives the stored classes."""
    options = {
        "javax.jdo.PersistenceManagerFactoryClass": (
            "org.datanucleus.api.jdo.JDOPersistenceManagerFactory"
        ),
        "javax.jdo.option.ConnectionURL": catalog.jdbc_url,
        "javax.jdo.option.ConnectionDriverName": DRIVER,
        "javax.jdo.option.ConnectionUserName": catalog.user,
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.identifierFactory": "datanucleus1",
        "datanucleus.rdbms.initializeColumnInfo": "NONE",
        "datanucleus.connectionPoolingType": "none",
    }
    if secret is not None:
        options[_PASSWORD] = secret
    given = jvm.java.util.HashMap()
    for key, value in options.items():
        given.put(key, value)
    classes = [f"{MODEL}.{name}" for name in _STORED_CLASS.findall(_mapping(jvm))]
    names = jvm.java.util.HashSet()
    for name in classes:
        names.add(name)
    factory = jvm.javax.jdo.JDOHelper.getPersistenceManagerFactory(given)
    try:
        store = factory.getNucleusContext().getStoreManager()
        store.createSchemaForClasses(names, jvm.java.util.Properties())
    finally:
        factory.close()
    return classes


def _complete(connection: JavaObject, classes: list[str]) -> None:
    # Two processes that each store the first object of a class would both begin its numbers.
    for name in classes:
        _execute(
            connection,
            'INSERT INTO "SEQUENCE_TABLE" ("SEQUENCE_NAME", "NEXT_VAL") '
            f"VALUES ('{name}', 1) ON CONFLICT DO NOTHING",
        )
    _execute(
        connection,
        'INSERT INTO "VERSION" ("VER_ID", "SCHEMA_VERSION", "VERSION_COMMENT") '
        f"VALUES (1, '{HIVE_SCHEMA}', 'made by delta_pipelines') ON CONFLICT DO NOTHING",
    )


def _mapping(jvm: JavaObject) -> str:
    """Hive's `package.jdo`: which class goes into which table."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream("package.jdo")
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def _execute(connection: JavaObject, statement: str) -> None:
    made = connection.createStatement()
    try:
        made.execute(statement)
    finally:
        made.close()


def _first(connection: JavaObject, query: str) -> str | None:
    made = connection.createStatement()
    try:
        found = made.executeQuery(query)
        return str(found.getString(1)) if found.next() and found.getString(1) else None
    finally:
        made.close()
