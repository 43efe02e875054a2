"""The only room that touches Delta's and Spark's JVM classes."""

from delta_pipelines.column_types import nullable
from delta_pipelines.delta.definition import TableDefinition
from delta_pipelines.delta.loading import history_entry, load_table, read_pinned, row_count
from delta_pipelines.delta.one_commit import DeltaTransaction
from delta_pipelines.delta.relations import DECLARED_PREFIX, Relation, relations
from delta_pipelines.delta.sessions import active, cancel_tag, isolated_session, job_tag
from delta_pipelines.delta.signatures import check_signatures, unavailable
from delta_pipelines.delta.spark_errors import conflict_class, explain, explained
from delta_pipelines.delta.table import Commit, HistoryEntry, TableState
from delta_pipelines.delta.transaction import Transaction, begin

__all__ = [
    "DECLARED_PREFIX",
    "Commit",
    "DeltaTransaction",
    "HistoryEntry",
    "Relation",
    "TableDefinition",
    "TableState",
    "Transaction",
    "active",
    "begin",
    "cancel_tag",
    "check_signatures",
    "conflict_class",
    "explain",
    "explained",
    "history_entry",
    "isolated_session",
    "job_tag",
    "load_table",
    "nullable",
    "read_pinned",
    "relations",
    "row_count",
    "unavailable",
]
