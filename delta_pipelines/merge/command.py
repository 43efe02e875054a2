"""One merge from the check of its clauses to its commit."""

import logging
from dataclasses import dataclass, replace
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.delta.jvm.sessions import active, is_on, isolated_session, setting
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
from delta_pipelines.merge.classic_executor import OwnMerge
from delta_pipelines.merge.clauses import (
    ClauseKind,
    MatchedUpdate,
    clause_problem,
    clauses_of,
    is_insert_only,
)
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
from delta_pipelines.merge.key_predicates import (
    Injection,
    can_prune,
    inject,
    is_worth_asking,
    known_keys,
    leaves_out_files,
)
from delta_pipelines.merge.native_executor import ChangedRows, described, run_native, run_resolved
from delta_pipelines.merge.row_equality import incomparable_columns
from delta_pipelines.merge.skip_unchanged import ambiguous_keys, skip_unchanged
from delta_pipelines.merge.source import INSERT_ONLY, MODE, MergeSource, PreparedSource, SourceUse
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.merge.target_table import open_target
from delta_pipelines.model.merge_result import MaterializeSourceReason, MergeResult, merge_metrics
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.setting_names import AUTO_MERGE, TXN_NUMBER, USER_METADATA

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""Maximum number of attempts when other writers keep committing first."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


@dataclass(frozen=True)
class _Outcome:
    changed: ChangedRows
    commit: MergeCommit | None
    reason: MaterializeSourceReason
    choice: ExecutorChoice
    note: str


class MergeCommand:
    """Run one merge.

    The merge runs in its own session, so that its settings and its token in the commit's user
    metadata do not affect other merges of the caller's session.

    Args:
        spark: A classic session.
        spec: The merge to run.
    """

    def __init__(self, spark: SparkSession, spec: MergeSpec) -> None:
        self._spark = spark
        self._spec = spec
        self._token = uuid4().hex
        self._attempts = 0
        self._once: tuple[str, int] | None = None
        """Application and number of an idempotent write, which the table records."""

    def run(self) -> MergeResult:
        """Check, prepare and execute the merge; run it again after a conflict.

        Raises:
            MergeError: See `MergeBuilder.execute`.
        """
        spec = self._spec
        problem = clause_problem(spec.clauses)
        if problem:
            raise MergeError(problem, dataset=str(spec.target))
        if not is_classic(self._spark):
            raise MergeError(
                "a merge needs a classic session; this one is a Spark Connect session.",
                dataset=spec.target,
            )
        session = isolated_session(self._spark)
        plan_without_constraints(session, len(spec.source.columns))
        noted = session.conf.get(USER_METADATA, None)
        session.conf.set(USER_METADATA, merge_user_metadata(self._token, spec.user_metadata, noted))
        self._once = numbered_write(session, spec.target)
        # Much of Spark's and Delta's analysis reads settings from the thread's active session.
        with active(session):
            result = self._run(session)
        if self._once is not None:
            forget_number(self._spark)
        return result

    def _run(self, session: SparkSession) -> MergeResult:
        spec = self._spec
        target = open_target(session, spec.target)
        before = latest_version(target)
        source = MergeSource(session, spec.target)

        def run() -> _Outcome:
            # The prepared source is reused after a conflict, and prepared again after a lost block.
            retrying = Retrying(
                retry=retry_if_exception(was_overtaken),
                stop=stop_after_attempt(MAX_ATTEMPTS),
                wait=wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
                before_sleep=self._log_retry,
                reraise=True,
            )
            return retrying(self._queued_attempt, session, target, before, source)

        try:
            outcome = source.run_with_materialized_source_lost_retries(run)
        except SPARK_FAILURES as exc:
            hint = self._samples() if is_ambiguous(exc) else ""
            raise merge_failure(exc, spec.target, attempts=self._attempts, hint=hint) from exc
        except AmbiguousMatchError as exc:
            raise MergeError(
                f"{exc.message} {self._samples()}".rstrip(), dataset=spec.target
            ) from exc
        commit = outcome.commit
        return MergeResult(
            version=commit.version if commit else None,
            metrics=merge_metrics(
                outcome.changed.metrics,
                outcome.changed.unlogged,
                commit.metrics if commit else {},
            ),
            executor=outcome.choice.executor,
            executor_reason="; ".join(
                part for part in (outcome.choice.reason, outcome.note) if part
            ),
            materialize_source_reason=outcome.reason,
            attempts=self._attempts,
        )

    def _queued_attempt(
        self, session: SparkSession, target: DeltaTable, before: int, source: MergeSource
    ) -> _Outcome:
        with queued_merge(self._spec.target, overtaken=self._attempts > 0) as waited:
            if waited or self._attempts:  # a DeltaTable keeps the schema from its creation
                target = open_target(session, self._spec.target)
            return self._attempt(session, target, before, source)

    def _attempt(
        self, session: SparkSession, target: DeltaTable, before: int, source: MergeSource
    ) -> _Outcome:
        self._attempts += 1
        if self._once is not None:  # Delta unsets the number after its use
            session.conf.set(TXN_NUMBER, str(self._once[1]))
        plan = self._resolved(session, target)
        choice = self._choose(session, plan)
        if (
            plan is not None
            and self._once is not None
            and remembers(plan.target.snapshot, *self._once)
        ):
            return _Outcome(ChangedRows(0, 0, 0), None, source.reason, choice, "")
        prepared = self._prepare(plan, choice, source)
        choice = self._choose_by_keys(plan, choice, prepared)
        reached(Step.MERGE, self._spec.target.replace("`", ""))
        if self._spec.before_write is not None:
            self._spec.before_write()
        try:
            changed, note = self._carry_out(session, target, plan, choice, prepared)
        except SPARK_FAILURES as exc:
            commit = self._landed(target, before)
            if commit is None:
                raise
            logger.warning(
                "Merge into %s is committed as version %d, although Delta failed afterwards: %s",
                self._spec.target,
                commit.version,
                exc,
            )
            return _Outcome(ChangedRows(0, 0, 0), commit, prepared.reason, choice, "")
        commit = changed.commit if choice.executor != "native" else self._found(target, before)
        return _Outcome(changed, commit, prepared.reason, choice, note)

    def _found(self, target: DeltaTable, before: int) -> MergeCommit | None:
        """Find the commit of Delta's own MERGE, which does not return it."""
        try:
            return find_merge_commit(target, before, self._token)
        except SPARK_FAILURES as exc:  # the merge is committed nevertheless
            raise MergeError(
                "Delta ran the merge, but its commit cannot be read back. Check the table's "
                "history before you run the merge again.",
                dataset=self._spec.target,
            ) from exc

    def _carry_out(
        self,
        session: SparkSession,
        target: DeltaTable,
        plan: MergePlan | None,
        choice: ExecutorChoice,
        source: PreparedSource,
    ) -> tuple[ChangedRows, str]:
        if plan is not None and choice.executor != "native":
            return self._run_own(session, plan, source)
        if plan is None or self._spec.skips_unchanged:
            widens = plan is None or plan.target.widens_types
            spec, note = self._reduced(session, source, widens=widens)
            return run_native(target, spec), note
        return self._run_native(session, plan, source)

    def _choose(self, session: SparkSession, plan: MergePlan | None) -> ExecutorChoice:
        requested = self._spec.executor
        insert_only = is_insert_only(self._spec.clauses)
        missing = missing_members(session)
        if requested == "native" or plan is None:
            why = missing.rstrip(".") if missing else "it cannot be resolved"
            return choose_executor(requested, obstacles=[why])
        obstacles = merge_obstacles(plan)
        if plan.source_reads_target:
            obstacles.append("its source reads the table")
        if insert_only and not is_on(session, INSERT_ONLY, "true"):
            obstacles.append(f"{INSERT_ONLY} is off")
        vectors = plan.target.writes_deletion_vectors
        return choose_executor(
            requested,
            insert_only=insert_only,
            vectors=vectors,
            source_bytes=0 if vectors and not insert_only else plan.source_bytes,
            part_by_source=plan.part_by_source,
            obstacles=obstacles,
        )

    def _choose_by_keys(
        self, plan: MergePlan | None, choice: ExecutorChoice, source: PreparedSource
    ) -> ExecutorChoice:
        """Revise the automatic choice for inserts of many rows: their keys are known now."""
        automatic = choice.executor == "insert_only" and self._spec.executor == "auto"
        if plan is None or not automatic or source.fixed is None or source.fixed.on_driver:
            return choice
        return choice if leaves_out_files(plan, source.keys) else INSERTS_EVERYWHERE

    def _run_native(
        self, session: SparkSession, plan: MergePlan, source: PreparedSource
    ) -> tuple[ChangedRows, str]:
        if source.fixed is None:
            return run_resolved(plan), ""
        prunes = can_prune(plan) and missing_members(session) is None
        plan = plan.with_source(source.frame)
        injection = Injection(plan)
        if prunes:
            queries = source.fixed.on_driver or is_worth_asking(plan)
            keys = known_keys(plan, source.fixed, queries=queries)
            injection = inject(plan, keys, count=queries)
        # Delta must not materialize the source again; after a lost block, `MergeSource` does.
        with setting(session, MODE, "none"):
            return run_resolved(injection.plan), injection.note

    def _run_own(
        self, session: SparkSession, plan: MergePlan, source: PreparedSource
    ) -> tuple[ChangedRows, str]:
        plan = plan.with_source(source.frame)
        skips = [
            isinstance(clause, MatchedUpdate) and clause.skip_unchanged
            for clause in clauses_of(self._spec.clauses, ClauseKind.MATCHED)
        ]
        blind = incomparable_columns(plan.target.schema) if any(skips) else []
        note = f"skip_unchanged has no effect: values of {', '.join(blind)} cannot be compared"
        kind = InsertOnlyMerge if is_insert_only(self._spec.clauses) else OwnMerge
        merge = kind(session, plan, source, self._spec.target, skips, once=self._once)
        return merge.run(), note if blind else ""

    def _landed(self, target: DeltaTable, before: int) -> MergeCommit | None:
        try:
            return find_merge_commit(target, before, self._token)
        except SPARK_FAILURES:
            logger.debug("The log of %s cannot be read after a failure", self._spec.target)
            return None

    def _target_rows(self) -> DataFrame:
        return open_target(self._spark, self._spec.target).toDF()

    def _resolved(self, session: SparkSession, target: DeltaTable) -> MergePlan | None:
        if missing_members(session) is not None:
            return None  # do not call members that may differ in this version of Delta
        try:
            return resolve_merge(session, described(target, self._spec))
        except SPARK_FAILURES:
            # Delta's own analysis reports the problem when the merge runs.
            logger.debug("The merge into %s cannot be resolved", self._spec.target, exc_info=True)
            return None

    def _prepare(
        self, plan: MergePlan | None, choice: ExecutorChoice, source: MergeSource
    ) -> PreparedSource:
        """Prepare the source for its executor; ours also needs to know the keys."""
        insert_only = is_insert_only(self._spec.clauses)
        if plan is None or plan.source_reads_target:
            rows = plan.source if plan else self._spec.source
            columns = plan.source_columns if plan else None
            return source.prepare(rows, columns, SourceUse.IN_TRANSACTION, insert_only=insert_only)
        own = choice.executor != "native"
        use = SourceUse.NUMBERED if own else SourceUse.PINNED
        prepared = source.prepare(plan.source, plan.source_columns, use, insert_only=insert_only)
        return replace(prepared, keys=known_keys(plan, prepared.fixed)) if own else prepared

    def _reduced(
        self, session: SparkSession, source: PreparedSource, *, widens: bool
    ) -> tuple[MergeSpec, str]:
        """Reduce the merge to the rows that it would change.

        These rows were compared with the target, so Delta materializes them in the transaction.
        """
        spec = replace(self._spec, source=source.frame)
        if not spec.skips_unchanged:
            return spec, ""
        rows = self._target_rows()
        if rows.storageLevel != StorageLevel.NONE:
            # Spark would read the cache, which may be older than the table.
            return spec, "skip_unchanged has no effect: the table is cached"
        case_sensitive = is_on(session, "spark.sql.caseSensitive", "false")
        evolves = spec.schema_evolution or is_on(session, AUTO_MERGE, "false")
        reduction = skip_unchanged(
            spec,
            rows,
            case_sensitive=case_sensitive,
            schema_evolution=evolves,
            widens=evolves and widens,
        )
        return reduction.spec, reduction.note

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
