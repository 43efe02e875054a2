"""Declare tables, views and upserts; get Delta tables that are created, evolved and merged safely.

```python
import delta_pipelines as dp

sales = dp.Pipeline("sales", schema="sales")

@sales.materialized_view
def orders(spark):
    return spark.read.json("orders/*.json")

@sales.upsert(keys=["customer_id"], sequence_by="changed_at")
def customers(orders):
    return orders.select("customer_id", "name", "changed_at")

sales.run(dp.get_session("./warehouse"))
```
"""

from importlib import import_module
from typing import TYPE_CHECKING

from delta_pipelines.declare.options import (
    FlowOptions,
    InputOption,
    MaterializedViewOptions,
    StreamedTableOptions,
    TableOptions,
    ViewOptions,
)
from delta_pipelines.errors import (
    CyclicDependencyError,
    DatasetError,
    DeclarationError,
    MergeError,
    PipelineError,
    PlanError,
    SchemaChangeError,
    SessionError,
    StorageError,
    UndeclaredInputError,
    UnknownDatasetError,
)
from delta_pipelines.graph.graph import Graph
from delta_pipelines.merge.builder import MergeBuilder, merge_into
from delta_pipelines.model.declarations import Batch, Changes, Stream
from delta_pipelines.model.expectation_result import ExpectationError, ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.maintenance_result import MaintenanceResult
from delta_pipelines.model.merge_result import MergeResult
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.model.partitions import StaticPartitions
from delta_pipelines.model.results import DatasetResult, PipelineRunError, RunResult
from delta_pipelines.model.time_partitions import (
    DailyPartitions,
    HourlyPartitions,
    MonthlyPartitions,
    WeeklyPartitions,
)
from delta_pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from delta_pipelines.planning.plan import DatasetPlan, Plan
    from delta_pipelines.session.catalog_lock import CatalogLockedError
    from delta_pipelines.session.session import check_session, get_session
    from delta_pipelines.system.postgres_catalog import CatalogServerError, PostgresCatalog
    from delta_pipelines.update.lease import LeaseTimeoutError

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CatalogLockedError",
    "CatalogServerError",
    "Changes",
    "CyclicDependencyError",
    "DailyPartitions",
    "DatasetError",
    "DatasetPlan",
    "DatasetResult",
    "DeclarationError",
    "ExpectationError",
    "ExpectationResult",
    "FlowOptions",
    "Graph",
    "HourlyPartitions",
    "Identifier",
    "InputOption",
    "LeaseTimeoutError",
    "MaintenanceResult",
    "MaterializedViewOptions",
    "MergeBuilder",
    "MergeError",
    "MergeResult",
    "MonthlyPartitions",
    "PartitionRange",
    "Pipeline",
    "PipelineError",
    "PipelineRunError",
    "Plan",
    "PlanError",
    "PostgresCatalog",
    "RunResult",
    "SchemaChangeError",
    "SessionError",
    "StaticPartitions",
    "StorageError",
    "Stream",
    "StreamedTableOptions",
    "TableOptions",
    "UndeclaredInputError",
    "UnknownDatasetError",
    "ViewOptions",
    "WeeklyPartitions",
    "check_session",
    "get_session",
    "merge_into",
]


_LATER = {
    "CatalogLockedError": "session.catalog_lock",
    "CatalogServerError": "system.postgres_catalog",
    "DatasetPlan": "planning.plan",
    "LeaseTimeoutError": "update.lease",
    "Plan": "planning.plan",
    "PostgresCatalog": "system.postgres_catalog",
    "check_session": "session.session",
    "get_session": "session.session",
}
"""They need PySpark, which takes seconds to load, or a library that the executors of a cluster may
not have. Neither is needed to declare a pipeline."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
