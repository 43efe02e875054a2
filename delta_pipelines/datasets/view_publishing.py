"""Publish a persisted view; its old definition stays until the new one is accepted."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.datasets.view_sql import alter_view_sql, create_view_sql, relabel_view_sql
from delta_pipelines.delta.catalog.views import ViewState
from delta_pipelines.delta.jvm.sessions import log_trace
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.schema.view_definition import labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def publish(
    session: "SparkSession",
    identifier: Identifier,
    sql: str,
    *,
    existing: ViewState | None,
    comment: str | None,
    properties: Mapping[str, str],
) -> None:
    """Create a view, or alter the existing one.

    For an existing view, the comment and properties change first, then the query, which Spark
    checks and the catalog replaces atomically. If that fails, the old comment and properties are
    restored. A run that is killed in between leaves the old query; the next run continues from it.

    Args:
        session: Its current schema and settings are stored with the view.
        sql: Its SELECT.
        existing: The view as it is now; None when it does not exist.
        comment: Its comment.
    """
    if existing is None:
        statement = create_view_sql(identifier, sql, comment=comment, properties=properties)
        session.sql(statement)
        return
    after = labels(properties, comment)
    before = labels(existing.properties or {}, existing.comment)
    try:
        for statement in relabel_view_sql(identifier, before, after):
            session.sql(statement)
        session.sql(alter_view_sql(identifier, sql))
    except SPARK_FAILURES:
        _put_back(session, relabel_view_sql(identifier, after, before))
        raise


def _put_back(session: "SparkSession", statements: list[str]) -> None:
    try:
        for statement in statements:
            session.sql(statement)
    except SPARK_FAILURES as error:
        # The view still has its old query; the next run finds the difference and publishes again.
        log.warning("Cannot restore the old comment and properties of a view after a failure.")
        log_trace(log, session, error)
