"""Publish a persisted view in a way that keeps its old definition until the new one is there."""

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
    """Create a view, or change the one that is there.

    An existing view is altered: its comment and properties first, then its query, which Spark
    checks and the catalog changes at once. When that fails, the old comment and properties are put
    back. A run that is killed in between leaves the old query, and the next run goes on from there.

    Args:
        session: Its current schema and settings become the view's.
        identifier: The view.
        sql: Its SELECT.
        existing: What it is now; None when it does not exist.
        comment: Its comment.
        properties: Its properties.
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
        # The query is the old one all the same; the next run compares all of it and publishes.
        log.warning("The old comment and properties of a view cannot be put back.")
        log_trace(log, session, error)
