"""One merge from the check of its clauses to its commit."""

import logging
from dataclasses import replace
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.delta.jvm.sessions import active, is_on, isolated_session
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.log.txn_versions import remembers
from delta_pipelines.delta.merge.commit_lookup import (
    MergeCommit,
    find_merge_commit,
    latest_version,
    merge_user_metadata,
)
from delta_pipelines.delta.merge.obstacles import obstacles as merge_obstacles
from delta_pipelines.delta.merge.required_members import missing_members
from delta_pipelines.delta.merge.resolution import resolve_merge
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.delta.query.local_checkpoint import plan_without_constraints
from delta_pipelines.errors import MergeError
from delta_pipelines.merge.attempt import MergeAttempt
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.classic_executor import ClassicMerge
from delta_pipelines.merge.clauses import clause_problem, is_insert_only
from delta_pipelines.merge.conflict_queue import queued_merge
from delta_pipelines.merge.executor_choice import (
    INSERTS_EVERYWHERE,
    ExecutorChoice,
    choose_executor,
)
from delta_pipelines.merge.failures import (
    AmbiguousMatchError,
    is_ambiguous,
    merge_failure,
    was_overtaken,
)
from delta_pipelines.merge.idempotent_write import forget_number, numbered_write
from delta_pipelines.merge.insert_only_executor import InsertOnlyMerge
from delta_pipelines.merge.key_predicates import known_keys, leaves_out_files
from delta_pipelines.merge.native_executor import NativeMerge, described
from delta_pipelines.merge.skip_unchanged import ambiguous_keys
from delta_pipelines.merge.source import INSERT_ONLY, MergeSource, PreparedSource, SourceUse
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.merge.target_table import open_target
from delta_pipelines.model.merge_result import MergeResult, merge_metrics
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.setting_names import TXN_NUMBER, USER_METADATA

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""Maximum number of attempts when other writers keep committing first."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class MergeCommand:
    """One merge, in a session of its own.

    So its settings and its token in the commit's user metadata do not affect other merges of the
    caller's session.

    Args:
        spark: The caller's session, a classic one.
        spec: The merge to run.

    Raises:
        MergeError: The clauses, the session or its settings for idempotent writes are invalid.
    """

    def __init__(self, spark: SparkSession, spec: MergeSpec) -> None:
        _check(spark, spec)
        self._spark = spark
        self._spec = spec
        self._insert_only = is_insert_only(spec.clauses)
        self._token = uuid4().hex
        self._session = _session_for(spark, spec, self._token)
        self._once = numbered_write(self._session, spec.target)
        """Application and number of an idempotent write, which the table records."""
        self._source = MergeSource(self._session, spec.target)
        self._attempts = 0
        self._before = 0
        """The target's version before the first attempt."""

    def run(self) -> MergeResult:
        """Execute the merge; again after a conflict, or if a block of its source was lost.

        Raises:
            MergeError: See `MergeBuilder.execute`.
        """
        # Much of Spark's and Delta's analysis reads settings from the thread's active session.
        with active(self._session):
            target = open_target(self._session, self._spec.target)
            self._before = latest_version(target)
            result = self._run_until_committed(target)
        if self._once is not None:
            forget_number(self._spark)
        return result

    def _run_until_committed(self, target: DeltaTable) -> MergeResult:
        # The prepared source is reused after a conflict, and prepared again after a lost block.
        retrying = Retrying(
            retry=retry_if_exception(was_overtaken),
            stop=stop_after_attempt(MAX_ATTEMPTS),
            wait=wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            return self._source.run_with_materialized_source_lost_retries(
                lambda: retrying(self._queued_attempt, target)
            )
        except SPARK_FAILURES as exc:
            hint = self._samples() if is_ambiguous(exc) else ""
            attempts = self._attempts
            raise merge_failure(exc, self._spec.target, attempts=attempts, hint=hint) from exc
        except AmbiguousMatchError as exc:
            message = f"{exc.message} {self._samples()}".rstrip()
            raise MergeError(message, dataset=self._spec.target) from exc

    def _queued_attempt(self, target: DeltaTable) -> MergeResult:
        with queued_merge(self._spec.target, overtaken=self._attempts > 0) as waited:
            if waited or self._attempts:  # a DeltaTable keeps the schema from its creation
                target = open_target(self._session, self._spec.target)
            return self._attempt(target)

    def _attempt(self, target: DeltaTable) -> MergeResult:
        """Resolve the merge, choose its executor, prepare its source, execute it."""
        self._attempts += 1
        if self._once is not None:  # Delta unsets the number after its use
            self._session.conf.set(TXN_NUMBER, str(self._once[1]))
        plan = self._resolve(target)
        choice = self._choose(plan)
        if self._is_recorded(plan):
            return self._result(ChangedRows(0, 0, 0), choice)
        source = self._prepare(plan, choice)
        choice = self._choose_by_keys(plan, choice, source)
        reached(Step.MERGE, self._spec.target.replace("`", ""))
        if self._spec.before_write is not None:
            self._spec.before_write()
        try:
            changed = self._execute(target, plan, choice, source)
        except SPARK_FAILURES as exc:
            changed = self._committed_nevertheless(target, exc)
        return self._result(changed, choice)

    def _resolve(self, target: DeltaTable) -> MergePlan | None:
        if missing_members(self._session) is not None:
            return None  # do not call members that may differ in this version of Delta
        try:
            return resolve_merge(self._session, described(target, self._spec))
        except SPARK_FAILURES:
            # Delta's own analysis reports the problem when the merge runs.
            logger.debug("The merge into %s cannot be resolved", self._spec.target, exc_info=True)
            return None

    def _choose(self, plan: MergePlan | None) -> ExecutorChoice:
        """Choose the executor by what is known before the source is read."""
        requested = self._spec.executor
        if requested == "native" or plan is None:
            missing = missing_members(self._session)
            why = missing.rstrip(".") if missing else "it cannot be resolved"
            return choose_executor(requested, obstacles=[why])
        obstacles = merge_obstacles(plan)
        if plan.source_reads_target:
            obstacles.append("its source reads the table")
        if self._insert_only and not is_on(self._session, INSERT_ONLY, "true"):
            obstacles.append(f"{INSERT_ONLY} is off")
        vectors = plan.target.writes_deletion_vectors
        return choose_executor(
            requested,
            insert_only=self._insert_only,
            vectors=vectors,
            source_bytes=0 if vectors and not self._insert_only else plan.source_bytes,
            part_by_source=plan.part_by_source,
            obstacles=obstacles,
        )

    def _is_recorded(self, plan: MergePlan | None) -> bool:
        """True when the table has already recorded this idempotent write."""
        if plan is None or self._once is None:
            return False
        return remembers(plan.target.snapshot, *self._once)

    def _prepare(self, plan: MergePlan | None, choice: ExecutorChoice) -> PreparedSource:
        """Prepare the source for its executor; ours also need to know its keys."""
        insert_only = self._insert_only
        if plan is None:
            use = SourceUse.IN_TRANSACTION
            return self._source.prepare(self._spec.source, None, use, insert_only=insert_only)
        own = choice.executor != "native"
        use = SourceUse.NUMBERED if own else SourceUse.PINNED
        if plan.source_reads_target:
            use = SourceUse.IN_TRANSACTION
        source = self._source.prepare(
            plan.source, plan.source_columns, use, insert_only=insert_only
        )
        return replace(source, keys=known_keys(plan, source.fixed)) if own else source

    def _choose_by_keys(
        self, plan: MergePlan | None, choice: ExecutorChoice, source: PreparedSource
    ) -> ExecutorChoice:
        """Revise the automatic choice for inserts of many rows: their keys are known now."""
        automatic = choice.executor == "insert_only" and self._spec.executor == "auto"
        if plan is None or not automatic or source.fixed is None or source.fixed.on_driver:
            return choice
        return choice if leaves_out_files(plan, source.keys) else INSERTS_EVERYWHERE

    def _execute(
        self,
        target: DeltaTable,
        plan: MergePlan | None,
        choice: ExecutorChoice,
        source: PreparedSource,
    ) -> ChangedRows:
        session, spec = self._session, self._spec
        if plan is None or choice.executor == "native":
            merge = NativeMerge(session, target, spec, plan, source, self._target_rows)
            return replace(merge.run(), commit=self._found(target))
        attempt = MergeAttempt(session, plan, source, spec.target, once=self._once)
        if attempt.is_done:
            return ChangedRows(0, 0, 0)
        if choice.executor == "insert_only":
            return InsertOnlyMerge(attempt).run()
        return ClassicMerge(attempt, spec.skips).run()

    def _found(self, target: DeltaTable) -> MergeCommit | None:
        """Find the commit of Delta's own MERGE, which does not return it."""
        try:
            return find_merge_commit(target, self._before, self._token)
        except SPARK_FAILURES as exc:  # the merge is committed nevertheless
            raise MergeError(
                "Delta ran the merge, but its commit cannot be read back. Check the table's "
                "history before you run the merge again.",
                dataset=self._spec.target,
            ) from exc

    def _committed_nevertheless(self, target: DeltaTable, failure: BaseException) -> ChangedRows:
        """Find the commit of a merge that failed afterwards; raise the failure if there is none."""
        commit = None
        try:
            commit = find_merge_commit(target, self._before, self._token)
        except SPARK_FAILURES:
            logger.debug("The log of %s cannot be read after a failure", self._spec.target)
        if commit is None:
            raise failure
        logger.warning(
            "Merge into %s is committed as version %d, although Delta failed afterwards: %s",
            self._spec.target,
            commit.version,
            failure,
        )
        return ChangedRows(0, 0, 0, commit=commit)

    def _result(self, changed: ChangedRows, choice: ExecutorChoice) -> MergeResult:
        version, logged = None, {}
        if changed.commit is not None:
            version, logged = changed.commit.version, changed.commit.metrics
        return MergeResult(
            version=version,
            metrics=merge_metrics(changed.metrics, changed.unlogged, logged),
            executor=choice.executor,
            executor_reason="; ".join(part for part in (choice.reason, changed.note) if part),
            materialize_source_reason=self._source.reason,
            attempts=self._attempts,
        )

    def _target_rows(self) -> DataFrame:
        return open_target(self._spark, self._spec.target).toDF()

    def _samples(self) -> str:
        try:
            return ambiguous_keys(self._spec, self._target_rows())
        except SPARK_FAILURES:
            logger.debug("No sample of the ambiguous keys", exc_info=True)
            return ""

    def _log_retry(self, state: RetryCallState) -> None:
        pause = state.next_action.sleep if state.next_action else 0.0
        logger.info(
            "Merge into %s was overtaken by another writer; attempt %d follows in %.1f s.",
            self._spec.target,
            state.attempt_number + 1,
            pause,
        )


def _check(spark: SparkSession, spec: MergeSpec) -> None:
    problem = clause_problem(spec.clauses)
    if problem:
        raise MergeError(problem, dataset=str(spec.target))
    if not is_classic(spark):
        raise MergeError(
            "a merge needs a classic session; this one is a Spark Connect session.",
            dataset=spec.target,
        )


def _session_for(spark: SparkSession, spec: MergeSpec, token: str) -> SparkSession:
    session = isolated_session(spark)
    plan_without_constraints(session, len(spec.source.columns))
    user_text = session.conf.get(USER_METADATA, None)
    session.conf.set(USER_METADATA, merge_user_metadata(token, spec.user_metadata, user_text))
    return session
