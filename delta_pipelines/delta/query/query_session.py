"""The session that a query is analysed in: it knows which DataFrames were made of plain rows."""

import logging
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, class_name
from delta_pipelines.delta.jvm.sessions import isolated_session, log_trace
from delta_pipelines.user_code.row_digest import row_digest

log = logging.getLogger(__name__)


def query_session(spark: SparkSession) -> SparkSession:
    """An isolated session that notes the rows its `createDataFrame` is given.

    Args:
        spark: The session to copy; a Connect session is returned as it is.
    """
    return isolated_session(spark, QuerySession)


def noted_rows(session: SparkSession, leaf: JavaObject) -> str | None:
    """The hash of the rows behind a leaf of a plan; None when nobody noted them.

    Args:
        session: That the query was analysed in.
        leaf: Rows whose origin Spark does not tell.
    """
    if not isinstance(session, QuerySession) or class_name(leaf) != "LogicalRDD":
        return None
    return session.row_digests.get(int(leaf.rdd().id()))


class QuerySession(SparkSession):
    """A session that notes small lists of plain rows, from which DataFrames were made.

    A plan says of such rows only that they are an RDD's. The notes live as long as the session.
    """

    def __init__(self, context: SparkContext, session: JavaObject) -> None:
        super().__init__(context, session)
        self.row_digests: dict[int, str] = {}

    def createDataFrame(  # type: ignore[override] # noqa: N802 - PySpark's name
        self, data: Any, schema: Any = None, *more: Any, **options: Any
    ) -> DataFrame:
        """As PySpark's."""
        frame: DataFrame = super().createDataFrame(data, schema, *more, **options)
        try:
            self._note(frame, row_digest(data, schema))
        except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
            # What a user made must not fail because nobody can tell of what.
            log.warning("cannot tell the rows of a DataFrame")
            log_trace(log, self, error)
        return frame

    def _note(self, frame: DataFrame, digest: str | None) -> None:
        if digest is None:
            return
        plan = frame._jdf.queryExecution().analyzed()
        if class_name(plan) == "LogicalRDD":
            self.row_digests[int(plan.rdd().id())] = digest
