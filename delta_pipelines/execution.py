"""Run a plan: independent datasets in parallel, each result as soon as its dataset has ended."""

import logging
import time
import uuid
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TYPE_CHECKING, Literal

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.datasets.schemas import ensure_schema
from delta_pipelines.delta.jvm.sessions import cancel_tag, job_tag
from delta_pipelines.delta.jvm.spark_errors import explain_crash
from delta_pipelines.errors import PlanError, as_pipeline_error
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.ready_queue import Waiting
from delta_pipelines.model.expectation_result import ExpectationError, ExpectationResult, added
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.model.results import (
    DatasetResult,
    Outcome,
    PartitionCommit,
    PartitionsResult,
    PipelineRunError,
    RunResult,
)
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.schema.remedies import not_allowed
from delta_pipelines.system.daemon_executor import DaemonThreads
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.lease import lease_on
from delta_pipelines.update.lease_record import LEASE_TIMEOUT
from delta_pipelines.update.leave_unchanged import leave_as_planned, leave_to_later
from delta_pipelines.update.retries import retrying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.1
"""Seconds between two checks of the main thread for an interrupt."""
CANCEL_SECONDS = 30.0
"""Seconds that an interrupted run waits for its workers after it cancelled their jobs."""

WAIT_LOG_SECONDS = 2.0
"""Seconds before an interrupted run logs which datasets it waits for."""

log = logging.getLogger(__name__)


def collect(
    plan: Plan,
    spark: "SparkSession",
    *,
    strict: bool,
    raise_on_error: bool,
    max_concurrency: int,
    lease_timeout: float = LEASE_TIMEOUT,
) -> RunResult:
    """Run a plan to its end; see `Pipeline.run`.

    Raises:
        PlanError: `strict`, and a dataset cannot be planned.
        PipelineRunError: `raise_on_error`, and a dataset failed or was skipped.
    """
    if strict and plan.errors:
        raise PlanError(plan.errors)
    execution = Execution(
        plan,
        spark,
        max_concurrency=max_concurrency,
        lease_timeout=lease_timeout,
        just_planned=True,
    )
    results = list(execution.results())
    for dataset in results:
        for message in _broken(dataset.expectations):
            log.warning("%s: %s.", dataset.name, message)
    success = all(result.succeeded for result in results)
    result = RunResult(execution.run_id, success, NamedMapping(results))
    if raise_on_error and not success:
        raise PipelineRunError(result)
    return result


class Execution:
    """One run of a plan.

    Args:
        spark: A session with Delta's extension and catalog.
        run_id: Recorded in the user metadata of every commit; generated when None.
        force: Refresh also the datasets that have not changed.
        max_concurrency: Number of datasets refreshed in parallel.
        lease_timeout: Maximum seconds that a dataset waits for another run that works on it.
        just_planned: True when this run itself has just made the plan.
    """

    def __init__(
        self,
        plan: Plan,
        spark: "SparkSession",
        *,
        run_id: str | None = None,
        force: bool = False,
        max_concurrency: int = 4,
        lease_timeout: float = LEASE_TIMEOUT,
        just_planned: bool = False,
    ) -> None:
        self.run_id = run_id or uuid.uuid4().hex
        self._plan = plan
        self._spark = spark
        self._max_concurrency = max(1, max_concurrency)
        self._lease_timeout = lease_timeout
        self._context = UpdateContext(plan, self.run_id, force=force, just_planned=just_planned)
        self._manager = DatasetManager(spark)
        self._tag = f"delta_pipelines-{self.run_id}"
        self._ended: dict[Identifier, DatasetResult] = {}

    def results(self) -> Generator[DatasetResult, None, None]:
        """Run the plan, and yield the result of each dataset when the dataset ends.

        A dataset starts when all its inputs have succeeded. The datasets that wait for a result
        start before the result is yielded, so a slow consumer does not keep workers idle. Closing
        the iterator, or an interrupt, cancels the running Spark jobs.
        """
        graph, planned = (
            self._plan.graph,
            {dataset.identifier for dataset in self._plan.datasets.values()},
        )
        waiting = Waiting(
            {
                dataset.identifier: graph.inputs_among(dataset.identifier, planned)
                for dataset in self._plan.datasets.values()
            }
        )
        running: dict[Future[DatasetResult], Identifier] = {}
        pool = DaemonThreads(min(self._max_concurrency, len(planned)), name="delta_pipelines")
        try:
            ready = self._start(waiting, running, pool)
            yield from ready
            while running:
                done, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                ended = []
                for future in done:
                    identifier = running.pop(future)
                    ended.append(self._end(identifier, future.result(), waiting))
                if ended:
                    ended += self._start(waiting, running, pool)
                    yield from ended
        except BaseException:
            self._cancel(running)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _start(
        self,
        waiting: Waiting,
        running: dict[Future[DatasetResult], Identifier],
        pool: Executor,
    ) -> list[DatasetResult]:
        """Start the datasets that are ready; return the results of those that can never start."""
        ended: list[DatasetResult] = []
        while (identifier := waiting.next()) is not None:
            planned = self._plan.datasets[str(identifier)]
            known = [self._ended[i] for i in waiting.inputs[identifier] if i in self._ended]
            bad = [result for result in known if not result.succeeded]
            if planned.error is not None and not planned.skipped:
                result = _result(planned, "failed", planned.reason, error=planned.error)
            elif bad or planned.skipped:
                result = _result(planned, "skipped", _skip_reason(planned, bad))
            elif waiting.is_ready(identifier):
                waiting.take(identifier)
                running[pool.submit(self._work, planned)] = identifier
                continue
            else:
                continue
            waiting.take(identifier)
            ended.append(self._end(identifier, result, waiting))
        return ended

    def _end(
        self, identifier: Identifier, result: DatasetResult, waiting: Waiting
    ) -> DatasetResult:
        result = self._plan.redaction.result(result)
        self._ended[identifier] = result
        waiting.ended(identifier, stops=not result.succeeded)
        return result

    def _work(self, planned: DatasetPlan) -> DatasetResult:
        started = time.monotonic()
        attempts = 0
        try:
            for attempt in retrying():
                with attempt:
                    attempts += 1
                    outcome = self._attempt(planned)
        except Exception as error:  # noqa: BLE001 - the error is this dataset's result
            seconds = time.monotonic() - started
            location = self._plan.graph[planned.identifier].declaration.location
            crash = explain_crash(error, planned.name)
            reported = as_pipeline_error(crash or error, planned.name, location)
            found = self._context.tally(planned.identifier).expectations
            if isinstance(reported, ExpectationError):
                found = added(found, reported.results)
            return _result(
                planned,
                "failed",
                str(reported),
                error=reported,
                seconds=seconds,
                attempts=attempts,
                expectations=found,
                commits=self._context.partition_commits(planned.identifier),
            )
        return self._completed(planned, outcome, time.monotonic() - started, attempts)

    def _attempt(self, planned: DatasetPlan) -> Outcome:
        left = leave_as_planned(self._spark, planned, self._context)
        if left is not None:
            return left
        with job_tag(self._spark, self._tag):
            return self._leased_refresh(planned)

    def _leased_refresh(self, planned: DatasetPlan) -> Outcome:
        if not planned.is_registered:
            # The lease is next to the table, and Hive has no folder for a missing schema. The table
            # itself may exist: a catalog can lose it together with its schema.
            ensure_schema(self._spark, planned.identifier)
        with lease_on(
            self._spark,
            planned.identifier,
            run_id=self.run_id,
            timeout=self._lease_timeout,
            cancelled=self._context.cancelled.is_set,
        ) as lease:
            if self._context.leased(self._spark, planned, lease):
                left = leave_to_later(self._spark, planned, self._context)
                if left is not None:
                    return left
                self._context.plans.plan_again(self._spark, planned.identifier)
            return self._refresh(self._context.plans.planned(planned.identifier))

    def _refresh(self, planned: DatasetPlan) -> Outcome:
        dataset = self._plan.graph[planned.identifier]
        if isinstance(dataset, Table):
            is_full = planned.action == "full_refresh"
            return self._manager.refresh_table(self._plan.graph, dataset, is_full, self._context)
        view = self._plan.graph.views[planned.name]
        return self._manager.refresh_view(self._plan.graph, view, self._context)

    def _completed(
        self, planned: DatasetPlan, outcome: Outcome, seconds: float, attempts: int
    ) -> DatasetResult:
        planned = self._context.plans.planned(planned.identifier)
        dataset = self._plan.graph[planned.identifier]
        reason = outcome.reason
        if isinstance(dataset, Table) and planned.reset_blocked and outcome.status == "unchanged":
            has = planned.base.properties if planned.base else {}
            reason = f"{reason}; {not_allowed(dataset, has)}"
        return DatasetResult(
            name=planned.name,
            status=outcome.status,
            action=outcome.action,
            reason=reason,
            identifier=planned.identifier,
            kind=planned.kind,
            version=outcome.version,
            rows=outcome.rows,
            metrics=outcome.metrics,
            seconds=seconds,
            facts=outcome.facts,
            changes=planned.changes,
            inputs=self._inputs(planned.identifier),
            notes=(*planned.notes, *outcome.notes, *_broken(outcome.expectations)),
            reset_blocked=planned.reset_blocked,
            attempts=attempts,
            merge=outcome.merge,
            expectations=outcome.expectations,
            partitions=outcome.partitions,
        )

    def _inputs(self, identifier: Identifier) -> dict[str, int | None]:
        flows = self._plan.graph.flows_of(identifier)
        return {k: v for flow in flows for k, v in self._context.queries.inputs(flow).items()}

    def _cancel(self, running: dict[Future[DatasetResult], Identifier]) -> None:
        self._context.cancelled.set()
        for future in running:
            future.cancel()
        started, is_logged = time.monotonic(), False
        pending = set(running)
        # In another thread: an interrupt during a py4j call would surface as a py4j error.
        with DaemonThreads(1, name="delta_pipelines-cancel") as canceller:
            # A job that starts after the cancel call is not cancelled: repeat until all have ended.
            while pending and time.monotonic() < started + CANCEL_SECONDS:
                wait([canceller.submit(self._cancel_jobs)], CANCEL_SECONDS)
                _, pending = wait(pending, timeout=POLL_SECONDS)
                if pending and not is_logged and time.monotonic() > started + WAIT_LOG_SECONDS:
                    is_logged = True
                    log.warning(
                        "Waiting up to %.0f s for %s to end. Interrupt again to stop waiting.",
                        CANCEL_SECONDS,
                        ", ".join(sorted(str(running[future]) for future in pending)),
                    )

    def _cancel_jobs(self) -> None:
        try:
            cancel_tag(self._spark, self._tag)
        except Exception as error:  # noqa: BLE001 - a JVM that has ended runs no jobs
            text = self._plan.redaction.text(str(error))
            log.debug("Cannot cancel the Spark jobs of this run: %s", text)


def _skip_reason(planned: DatasetPlan, bad: list[DatasetResult]) -> str:
    if not bad:
        return planned.reason
    root = bad[0]
    if root.status == "skipped":
        # The first and the last dataset of a long chain are enough.
        why = root.reason.rpartition(" was skipped: ")[2]
        return f"its input {root.name} was skipped: {why}"
    return f"its input {root.name} failed: {root.failure}"


def _result(
    planned: DatasetPlan,
    status: Literal["failed", "skipped"],
    reason: str,
    *,
    error: Exception | None = None,
    seconds: float = 0.0,
    attempts: int = 1,
    expectations: tuple[ExpectationResult, ...] = (),
    commits: Sequence[PartitionCommit] = (),
) -> DatasetResult:
    return DatasetResult(
        name=planned.name,
        status=status,
        action="none",
        reason=reason,
        identifier=planned.identifier,
        kind=planned.kind,
        error=error,
        seconds=seconds,
        attempts=attempts,
        expectations=expectations,
        partitions=PartitionsResult(tuple(commits)) if commits else None,
    )


def _broken(expectations: tuple[ExpectationResult, ...]) -> list[str]:
    return [str(expectation) for expectation in expectations if not expectation.passed]
