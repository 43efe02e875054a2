"""`UpdateContext`: what one run has, for everything that it writes."""

import threading
import uuid
from typing import TYPE_CHECKING

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import PartitionCommit
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.skipping.dependency_trace import tables_behind
from delta_pipelines.planning.skipping.redacted_names import recorded
from delta_pipelines.update.lease import Lease
from delta_pipelines.update.run_plans import RunPlans
from delta_pipelines.update.run_queries import RunQueries
from delta_pipelines.update.run_versions import RunVersions
from delta_pipelines.update.stream_tally import StreamTally
from delta_pipelines.user_code.definition_hash import definition_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class UpdateContext:
    """State of one run that the DatasetManager needs in addition to the graph.

    `plans` has the current plan of each dataset, `queries` their analysed queries, `versions` the
    table versions that they read.

    Args:
        run_id: Recorded in the user metadata of every commit; generated when None.
        force: Refresh also the datasets that have not changed; a forced plan does it anyway.
        just_planned: True when this run itself has just made the plan.
    """

    def __init__(
        self,
        plan: Plan,
        run_id: str | None = None,
        *,
        force: bool = False,
        just_planned: bool = False,
    ) -> None:
        self.plan = plan
        self.run_id = run_id or uuid.uuid4().hex
        self.force = force or plan.force
        self.just_planned = just_planned
        self.versions = RunVersions(plan.pins)
        self.plans = RunPlans(plan, self.versions)
        self.queries = RunQueries(plan.graph, self.plans, self.versions)
        self.cancelled = threading.Event()
        self._tallies: dict[Identifier, StreamTally] = {}
        self._leases: dict[Identifier, Lease] = {}
        self._partition_commits: dict[Identifier, list[PartitionCommit]] = {}

    def leased(self, spark: "SparkSession", planned: DatasetPlan, lease: Lease) -> bool:
        """Record the lease of a dataset, and check whether another run was faster than this one.

        From now on only this run works on the table. Every difference from the plan happened before
        this run got the lease.

        Args:
            spark: The session that planned.
            planned: The dataset's plan.
            lease: Its lease.

        Returns:
            True when another run held the lease or changed the dataset after this run was planned.
        """
        self._leases[planned.identifier] = lease
        return lease.waited or self.plans.is_outdated(spark, planned)

    def reads_as_planned(self, identifier: Identifier) -> bool:
        """True when the run has not written any input of a dataset."""
        behind = tables_behind(self.plan.graph, identifier)
        return all(i in self.plan.pins and self.versions.is_pinned(i) for i in behind)

    def check_cancelled(self) -> None:
        """Stop if the run was interrupted.

        Raises:
            DatasetError: The run was interrupted.
        """
        if self.cancelled.is_set():
            raise DatasetError("the run was interrupted.")

    def tally(self, identifier: Identifier) -> StreamTally:
        """The commits and micro-batches of this run's streams to a table, over all attempts."""
        return self._tallies.setdefault(identifier, StreamTally())

    def partition_commits(self, identifier: Identifier) -> list[PartitionCommit]:
        """The commits of this run that replaced partitions of a table, over all attempts."""
        return self._partition_commits.setdefault(identifier, [])

    def commit_metadata(self, flow: Flow) -> dict[str, object]:
        """The user metadata of a commit: the run, its action, inputs and dependencies."""
        inputs = {name: {"version": version} for name, version in self.queries.inputs(flow).items()}
        dependencies = self.queries.dependencies(flow)
        return {
            "run_id": self.run_id,
            "pipeline": self.plan.pipeline,
            "dataset": str(flow.target),
            "action": self.plans.planned(flow.target).action,
            "definition": definition_hash(flow.declaration),
            "inputs": self.plan.redaction.data(inputs),
            "dependencies": (
                recorded(dependencies, self.plan.redaction).to_dict() if dependencies else None
            ),
        }

    def check_lease(self, identifier: Identifier) -> None:
        """Check, right before a commit, that this run still holds the dataset's lease.

        Raises:
            DatasetError: Another run has taken the lease; transient.
        """
        lease = self._leases.get(identifier)
        if lease is not None:
            lease.check()

    def table_metadata(self, table: Table) -> dict[str, object]:
        """The user metadata of a commit that changes a table's definition only."""
        return self.commit_metadata(self.plan.graph.flow(table.identifier))
