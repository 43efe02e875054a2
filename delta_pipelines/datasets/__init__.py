"""Tables and views are made, altered, wiped and published here."""

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.flows.context import UpdateContext
from delta_pipelines.planning.refresh_set import construct_full_refresh_set
from delta_pipelines.planning.schema_diff import SchemaChange, diff_schemas

__all__ = [
    "DatasetManager",
    "SchemaChange",
    "UpdateContext",
    "construct_full_refresh_set",
    "diff_schemas",
]
