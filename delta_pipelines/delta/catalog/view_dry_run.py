"""Try to publish a view, to find out before the refresh what Spark or the catalog would reject."""

import json
from collections.abc import Collection, Mapping

from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.hive_metastore_query import database_of
from delta_pipelines.delta.jvm.bridge import Jvm, entries
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.query.relations import DECLARED_PREFIX
from delta_pipelines.errors import DatasetError

_REHEARSED = "__dp_rehearsed_view"
_REFERRED = {
    "view.referredTempViewNames": "temporary view",
    "view.referredTempFunctionsNames": "temporary function",
}
"""Properties of a temporary view that list the session's objects that its query reads."""
_DERBY_TEXT = 32_700
_KEY = 256
_VALUE = 32_672


def rehearse_view(
    session: SparkSession, sql: str, dataset: str, bound: Collection[str] = ()
) -> None:
    """Create a temporary view of a query: Spark checks it like a persisted view.

    Args:
        session: The isolated session in which the query was analysed.
        sql: The query over the markers of its inputs (`Binder`).
        dataset: Declared name, for messages.
        bound: Names in lower case of inputs that were temporary views while the query, or a view
            that it reads, was analysed.

    Raises:
        DatasetError: The query reads an object that ends with the session, or Spark rejects the
            view.
    """
    with active(session), explained(dataset):
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_REHEARSED} AS {sql}")
        jvm = Jvm(session)
        name = jvm.type("org.apache.spark.sql.catalyst.TableIdentifier")(_REHEARSED, jvm.none)
        catalog = jvm.session.sessionState().catalog()
        kept = entries(catalog.getTempViewOrPermanentTableMetadata(name).properties())
    found = [
        f"{kind} {name}"
        for key, kind in _REFERRED.items()
        for name in _named(kept.get(key))
        if name.lower() not in bound
    ]
    if found:
        raise DatasetError(
            f"its query reads the {', '.join(found)} of this session, but a persisted view "
            f"outlives the session: make that object persistent, move it into the query, or "
            f"declare the dataset as a temporary_view.",
            dataset=dataset,
        )


def _named(text: str | None) -> list[str]:
    names = json.loads(text) if text else []
    parts = [[name] if isinstance(name, str) else name for name in names]
    return [".".join(name) for name in parts if not name[-1].startswith(DECLARED_PREFIX)]


def check_size(spark: SparkSession, sql: str, labels: Mapping[str, str], dataset: str) -> None:
    """Reject a view that does not fit into the columns of Hive's tables.

    Args:
        sql: The view's text.
        labels: Its properties, and its comment as `comment`.
        dataset: Declared name, for messages.

    Raises:
        DatasetError: A name, the text or a value is too long for the catalog's database.

    Source of the limits: `package.jdo` of Hive 2.3; a text is a `LONG VARCHAR` in Derby.
    """
    database = database_of(Jvm(spark))
    if database is None:
        return
    sizes = [(f"the name of property {key[:20]!r}", key, _KEY) for key in labels]
    sizes += [(f"property {key!r}", value, _VALUE) for key, value in labels.items()]
    if database.address.startswith("jdbc:derby:"):
        sizes.append(("its text", sql, _DERBY_TEXT))
    for what, text, most in sizes:
        if _length(text) > most:
            other = ", or keep the catalog in PostgreSQL" if text is sql else ""
            raise DatasetError(
                f"{what} has {_length(text):,} characters, but the catalog stores at most "
                f"{most:,}: shorten it{other}.",
                dataset=dataset,
            )


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2  # as Java counts
