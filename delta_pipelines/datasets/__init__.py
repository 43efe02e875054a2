"""Create, alter and wipe tables, and publish views."""

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.planning.refresh_set import construct_full_refresh_set
from delta_pipelines.planning.schema.schema_diff import SchemaChange, diff_schemas
from delta_pipelines.update.context import UpdateContext

__all__ = [
    "DatasetManager",
    "SchemaChange",
    "UpdateContext",
    "construct_full_refresh_set",
    "diff_schemas",
]
