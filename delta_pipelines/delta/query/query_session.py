"""A session for analysing a query, which records the plain rows behind its DataFrames."""

import logging
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, class_name
from delta_pipelines.delta.jvm.sessions import isolated_session, log_trace
from delta_pipelines.user_code.row_digest import row_digest

log = logging.getLogger(__name__)


def query_session(spark: SparkSession) -> SparkSession:
    """Create an isolated session that hashes the rows passed to its `createDataFrame`."""
    return isolated_session(spark, QuerySession)


def sql_query(session: SparkSession, text: str) -> DataFrame:
    """Analyse a SQL text without arguments.

    `session.sql` takes four more calls to the JVM, to pass an empty list of arguments.

    Args:
        session: A classic session.
        text: One query.

    Example:
        >>> sql_query(spark, "SELECT 1 AS n").columns
        ['n']
    """
    return DataFrame(session._jsparkSession.sql(text), session)


def noted_rows(session: SparkSession, leaf: JavaObject) -> str | None:
    """Return the hash of the rows behind a leaf of a plan; None if it was not recorded.

    Args:
        session: The session in which the query was analysed.
        leaf: A leaf of a plan.
    """
    if not isinstance(session, QuerySession) or class_name(leaf) != "LogicalRDD":
        return None
    return session.row_digests.get(int(leaf.rdd().id()))


class QuerySession(SparkSession):
    """A session that records hashes of small lists of plain rows behind DataFrames.

    A plan shows such rows only as an RDD. The hashes live as long as the session.
    """

    def __init__(self, context: SparkContext, session: JavaObject) -> None:
        super().__init__(context, session)
        self.row_digests: dict[int, str] = {}

    def createDataFrame(  # type: ignore[override] # noqa: N802 - PySpark's name
        self, data: Any, schema: Any = None, *more: Any, **options: Any
    ) -> DataFrame:
        """Create a DataFrame as PySpark does, and record a hash of its rows."""
        frame: DataFrame = super().createDataFrame(data, schema, *more, **options)
        try:
            self._note(frame, row_digest(data, schema))
        except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
            # The user's DataFrame must not fail because its rows cannot be hashed.
            log.warning("cannot hash the rows of a DataFrame")
            log_trace(log, self, error)
        return frame

    def _note(self, frame: DataFrame, digest: str | None) -> None:
        if digest is None:
            return
        plan = frame._jdf.queryExecution().analyzed()
        if class_name(plan) == "LogicalRDD":
            self.row_digests[int(plan.rdd().id())] = digest
