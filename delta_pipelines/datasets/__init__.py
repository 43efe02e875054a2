"""Tables and views are made, altered, wiped and published here."""

from typing import TYPE_CHECKING

from delta_pipelines.planning.refresh_set import construct_full_refresh_set
from delta_pipelines.planning.schema_diff import SchemaChange, diff_schemas

if TYPE_CHECKING:
    from delta_pipelines.datasets.manager import DatasetManager

__all__ = ["DatasetManager", "SchemaChange", "construct_full_refresh_set", "diff_schemas"]


def __getattr__(name: str) -> object:
    # The manager runs flows, which need this room's decisions: at import that is a circle.
    if name == "DatasetManager":
        from delta_pipelines.datasets.manager import DatasetManager

        return DatasetManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
