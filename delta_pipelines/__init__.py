"""Declare tables, views and upserts; get Delta tables that are created, evolved and merged safely.

import delta_pipelines as dp

sales = dp.Pipeline("sales", schema="sales")

@sales.materialized_view
def orders(spark):
    return spark.read.json("orders/*.json")

@sales.upsert(keys=["customer_id"], sequence_by="changed_at")
def customers(orders):
    return orders.select("customer_id", "name", "changed_at")

sales.run(dp.get_session("./warehouse"))
"""

from delta_pipelines.errors import (
    CyclicDependencyError,
    DatasetError,
    DeclarationError,
    MergeError,
    PipelineError,
    PlanError,
    SchemaChangeError,
    SessionError,
    UndeclaredInputError,
    UnknownDatasetError,
)
from delta_pipelines.merge.builder import MergeBuilder, merge_into
from delta_pipelines.model.declarations import Batch, Changes, Stream
from delta_pipelines.model.expectation_result import ExpectationError, ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.merge_result import MergeResult
from delta_pipelines.model.results import DatasetResult, PipelineRunError, RunResult
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.session.session import check_session, get_session

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Changes",
    "CyclicDependencyError",
    "DatasetError",
    "DatasetResult",
    "DeclarationError",
    "ExpectationError",
    "ExpectationResult",
    "Identifier",
    "MergeBuilder",
    "MergeError",
    "MergeResult",
    "Pipeline",
    "PipelineError",
    "PipelineRunError",
    "PlanError",
    "RunResult",
    "SchemaChangeError",
    "SessionError",
    "Stream",
    "UndeclaredInputError",
    "UnknownDatasetError",
    "check_session",
    "get_session",
    "merge_into",
]
