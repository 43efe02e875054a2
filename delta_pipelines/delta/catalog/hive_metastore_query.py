"""What Hive's catalog has under many names, read from its own tables in one query.

Hive itself takes 22 queries for each table that it is asked for (counted by PostgreSQL's log): 7 to
20 ms with its database in this process (Derby), a third of a run that finds nothing to do, and as
many round trips to a server. One query of ours tells of ten tables in 5 ms. Hive too looks into
these tables past its mapper where that is too slow (`MetaStoreDirectSql`); they are as its
metastore 2.3 has them, which Spark holds.

A row is enough for who reads a Delta table: where it is. What is no Delta table, and what another
catalog has, Spark is asked for.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.security.py4j_log_filter import hide_credentials
from delta_pipelines.security.redaction import Redaction

log = logging.getLogger(__name__)

_HIVE_JARS = "spark.sql.hive.metastore.jars"
_DRIVERS = {
    "jdbc:derby:;": "org.apache.derby.jdbc.EmbeddedDriver",
    "jdbc:postgresql:": "org.postgresql.Driver",
}
"""How addresses begin of databases whose catalogs are tested so, and who connects to them."""
_CREATE = ";create=true"
_PLAIN = re.compile(r"\w+", re.ASCII)
"""A name that Hive takes and that Java and Python write alike in lower case."""
_AT_ONCE = 10
"""Names in one query: always as many, as Derby takes 50 ms to compile one it has not seen."""
_ROWS = f"""
SELECT T."TBL_NAME" || ' ' ||
  CASE WHEN T."TBL_TYPE" IN ('MANAGED_TABLE', 'EXTERNAL_TABLE') AND LOWER(P."PARAM_VALUE") = 'delta'
    THEN COALESCE(L."PARAM_VALUE", '') ELSE '' END
FROM "DBS" D
JOIN "TBLS" T ON T."DB_ID" = D."DB_ID"
LEFT JOIN "SDS" S ON S."SD_ID" = T."SD_ID"
LEFT JOIN "SERDE_PARAMS" L ON L."SERDE_ID" = S."SERDE_ID" AND L."PARAM_KEY" = 'path'
LEFT JOIN "TABLE_PARAMS" P ON P."TBL_ID" = T."TBL_ID"
  AND P."PARAM_KEY" = 'spark.sql.sources.provider'
WHERE D."NAME" = ? AND T."TBL_NAME" IN ({", ".join("?" * _AT_ONCE)})
"""


@dataclass(frozen=True)
class Database:
    """A database that Hive keeps its tables in, as this process reaches it.

    Args:
        address: As JDBC has it (`jdbc:derby:;databaseName=...`).
        user: Whose tables they are.
        password: Theirs; nothing logs it.
    """

    address: str
    user: str = "APP"
    password: str = field(default="", repr=False)

    @contextmanager
    def connected(self, jvm: Jvm) -> Iterator[JavaObject]:
        """A transaction of its own."""
        driver = next(name for start, name in _DRIVERS.items() if self.address.startswith(start))
        properties = jvm.root.java.util.Properties()
        properties.setProperty("user", self.user)
        properties.setProperty("password", self.password)
        connection = jvm.type(driver)().connect(self.address, properties)
        try:
            connection.setAutoCommit(False)
            yield connection
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()


def delta_locations(jvm: Jvm, schema: str, names: Sequence[str]) -> Mapping[str, str] | None:
    """Where the catalog has the Delta tables of a schema.

    Args:
        jvm: Of a session.
        schema: Its name as Hive keeps it, in lower case.
        names: Tables, in lower case.

    Returns:
        The location of each Delta table, an empty one of what is none; what the catalog does not
        have is left out. None when the catalog cannot be asked so.

    Example:
        >>> delta_locations(Jvm(spark), "aviation", ["flights", "a_view", "nothing"])
        {'flights': 'file:/data/aviation.db/flights', 'a_view': ''}
    """
    database = database_of(jvm)
    if database is None or not all(_PLAIN.fullmatch(name) for name in (schema, *names)):
        return None
    try:
        with database.connected(jvm) as connection:
            rows = [row for part in _parts(names) for row in _rows(connection, schema, part)]
    except SPARK_FAILURES as error:
        # Not its text: a driver may tell what it was given.
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else None
        kind = type(error).__name__ if thrown is None else class_name(thrown)
        log.debug("The catalog's database does not tell its tables (%s); Hive is asked.", kind)
        return None
    return {name: location for name, _, location in (row.partition(" ") for row in rows)}


def database_of(jvm: Jvm) -> Database | None:
    """The database of a session's catalog; None when it has another one, or one out of reach."""
    context = jvm.spark.sparkContext
    if context not in _databases:
        _databases[context] = _asked_database(jvm)
    return _databases[context]


_databases: WeakKeyDictionary[SparkContext, Database | None] = WeakKeyDictionary()


def _asked_database(jvm: Jvm) -> Database | None:
    try:
        if jvm.session.conf().get(_HIVE_JARS) != "builtin":
            return None  # it may have a Derby of its own, and a second one must not open the files
        hive = jvm.session.sharedState().externalCatalog().unwrapped().client()
        if hive.getConf("hive.metastore.uris", ""):
            return None  # a server stands before the database
        hide_credentials(Redaction())  # a session that is not ours may not have done it
        address, user, password = (
            str(hive.getConf(f"javax.jdo.option.Connection{name}", ""))
            for name in ("URL", "UserName", "Password")
        )
    except SPARK_FAILURES:
        log.debug("The catalog is not kept by Hive.")
        return None
    known = any(address.startswith(start) for start in _DRIVERS)
    return Database(address.replace(_CREATE, ""), user, password) if known else None


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while part := list(islice(rest, _AT_ONCE)):
        yield part + part[-1:] * (_AT_ONCE - len(part))


def _rows(connection: JavaObject, schema: str, names: Sequence[str]) -> Iterator[str]:
    statement = connection.prepareStatement(_ROWS)
    for position, value in enumerate((schema, *names), 1):
        statement.setString(position, value)
    found = statement.executeQuery()
    while found.next():
        yield str(found.getString(1))
