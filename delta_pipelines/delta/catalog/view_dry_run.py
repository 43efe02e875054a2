"""Try what is to be published as a view: what Spark or the catalog would refuse is known before."""

import json
from collections.abc import Collection, Mapping

from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.hive_metastore_query import database_of
from delta_pipelines.delta.jvm.bridge import Jvm, entries, is_classic
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.query.relations import DECLARED_PREFIX
from delta_pipelines.errors import DatasetError

_REHEARSED = "__dp_rehearsed_view"
_REFERRED = {
    "view.referredTempViewNames": "temporary view",
    "view.referredTempFunctionsNames": "temporary function",
}
"""Where Spark notes, with a temporary view, what its query reads that ends with the session."""
_DERBY_TEXT = 32_700
_KEY = 256
_VALUE = 32_672


def rehearse_view(
    session: SparkSession, sql: str, dataset: str, bound: Collection[str] = ()
) -> None:
    """Let Spark make a temporary view of a query, which it checks as a persisted one.

    Args:
        session: That the query was analysed in, of its own.
        sql: The query over the markers of its inputs (`Binder`).
        dataset: Declared name, for messages.
        bound: Names in lower case under which inputs were temporary views while the query, or a
            view behind it, was analysed.

    Raises:
        DatasetError: It reads what ends with the session, or Spark refuses it as a view.
    """
    if not is_classic(session):
        return
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
            f"a persisted view outlives the session, and its query reads the {', '.join(found)} of "
            f"this session: make that persistent, put it into the query, or make the dataset a "
            f"temporary_view.",
            dataset=dataset,
        )


def _named(text: str | None) -> list[str]:
    names = json.loads(text) if text else []
    parts = [[name] if isinstance(name, str) else name for name in names]
    return [".".join(name) for name in parts if not name[-1].startswith(DECLARED_PREFIX)]


def check_size(spark: SparkSession, sql: str, labels: Mapping[str, str], dataset: str) -> None:
    """Refuse what does not fit into the columns of Hive's tables.

    Args:
        spark: The session.
        sql: The view's text.
        labels: Its properties, and its comment as `comment`.
        dataset: Declared name, for messages.

    Raises:
        DatasetError: A name, the text or a value is too long for the catalog's database.

    Source of the limits: `package.jdo` of Hive 2.3; a text is a `LONG VARCHAR` in Derby.
    """
    database = database_of(Jvm(spark)) if is_classic(spark) else None
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
                f"{what} has {_length(text):,} characters, and the catalog keeps {most:,}: shorten "
                f"it{other}.",
                dataset=dataset,
            )


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2  # as Java counts
