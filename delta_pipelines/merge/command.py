"""One merge from the check of its clauses to its commit."""

import logging
from dataclasses import dataclass
from uuid import uuid4

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from delta_pipelines.delta.jvm import is_classic
from delta_pipelines.delta.merge_commit import (
    MergeCommit,
    find_merge_commit,
    latest_version,
    merge_user_metadata,
)
from delta_pipelines.delta.sessions import isolated_session
from delta_pipelines.delta.source_facts import equi_join_keys, gather_source_facts
from delta_pipelines.errors import MergeError
from delta_pipelines.merge.choice import choose_executor
from delta_pipelines.merge.clauses import clause_problem, is_insert_only
from delta_pipelines.merge.failures import (
    SPARK_FAILURES,
    is_ambiguous,
    merge_failure,
    was_overtaken,
)
from delta_pipelines.merge.keys import key_problems, render_keys
from delta_pipelines.merge.native import ChangedRows, run_native
from delta_pipelines.merge.result import MergeResult
from delta_pipelines.merge.source import MaterializeSourceReason, should_materialize_source
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.merge.target import open_target
from delta_pipelines.merge.unchanged import as_column, skip_unchanged
from delta_pipelines.steps import Step, reached

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""How often a merge runs when other writers keep committing first."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_MODE = "spark.databricks.delta.merge.materializeSource"
_INSERT_ONLY = "spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled"


@dataclass(frozen=True)
class _Outcome:
    changed: ChangedRows
    commit: MergeCommit | None
    reason: MaterializeSourceReason
    note: str


class MergeCommand:
    """Runs one merge.

    The merge runs in a session of its own, so that its settings and its mark in the commit's user
    metadata meet no other merge of the caller's session.

    Args:
        spark: A classic session.
        spec: What to do.
    """

    def __init__(self, spark: SparkSession, spec: MergeSpec) -> None:
        self._spark = spark
        self._spec = spec
        self._token = uuid4().hex

    def run(self) -> MergeResult:
        """Check, prepare and execute the merge, again after a conflict.

        Raises:
            MergeError: See `MergeBuilder.execute`.
        """
        spec = self._spec
        problem = clause_problem(spec.clauses)
        if problem:
            raise MergeError(problem, dataset=spec.target)
        if not is_classic(self._spark):
            raise MergeError(
                "a merge needs a session with its own JVM; this one is a Spark Connect session. "
                "Run it in a classic session.",
                dataset=spec.target,
            )
        choice = choose_executor(spec.executor)
        session = isolated_session(self._spark)
        session.conf.set(_USER_METADATA, self._user_metadata())
        target = open_target(session, spec.target)
        before = latest_version(target)
        retrying = Retrying(
            retry=retry_if_exception(was_overtaken),
            stop=stop_after_attempt(MAX_ATTEMPTS),
            wait=wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            outcome = retrying(self._attempt, session, before)
        except SPARK_FAILURES as exc:
            attempts = int(retrying.statistics["attempt_number"])
            raise merge_failure(exc, spec.target, attempts=attempts, hint=self._hint(exc)) from exc
        commit = outcome.commit
        return MergeResult(
            version=commit.version if commit else None,
            metrics={**outcome.changed.metrics, **(commit.metrics if commit else {})},
            executor=choice.executor,
            executor_reason="; ".join(part for part in (choice.reason, outcome.note) if part),
            materialize_source_reason=outcome.reason,
            attempts=int(retrying.statistics["attempt_number"]),
        )

    def _attempt(self, session: SparkSession, before: int) -> _Outcome:
        # Opened again each time: a table object keeps the schema it was opened with.
        target = open_target(session, self._spec.target)
        spec, note = self._spec, ""
        if spec.skips_unchanged:
            case_sensitive = session.conf.get("spark.sql.caseSensitive", "false") == "true"
            rows = self._target_rows()
            reduction = skip_unchanged(spec, rows, case_sensitive=case_sensitive)
            spec, note = reduction.spec, reduction.note
        reason = self._materialize_reason(session, spec)
        reached(Step.MERGE, spec.target.replace("`", ""))
        try:
            changed = run_native(target, spec)
        except SPARK_FAILURES as exc:
            commit = self._landed(target, before)
            if commit is None:
                raise
            logger.warning(
                "Merge into %s is committed as version %d, although Delta failed after it: %s",
                spec.target,
                commit.version,
                exc,
            )
            return _Outcome(ChangedRows(0, 0, 0), commit, reason, note)
        return _Outcome(changed, find_merge_commit(target, before, self._token), reason, note)

    def _landed(self, target: DeltaTable, before: int) -> MergeCommit | None:
        try:
            return find_merge_commit(target, before, self._token)
        except SPARK_FAILURES:
            logger.debug("The log of %s cannot be read after a failure", self._spec.target)
            return None

    def _target_rows(self) -> DataFrame:
        return open_target(self._spark, self._spec.target).toDF()

    def _materialize_reason(
        self, session: SparkSession, spec: MergeSpec
    ) -> MaterializeSourceReason:
        mode = str(session.conf.get(_MODE, "auto"))
        optimized = str(session.conf.get(_INSERT_ONLY, "true")).lower() == "true"
        try:
            facts = gather_source_facts(session, spec.source.alias(spec.source_alias))
        except Py4JError:
            logger.debug("The plan of the source cannot be examined", exc_info=True)
            return MaterializeSourceReason.UNKNOWN
        insert_only = optimized and is_insert_only(spec.clauses)
        return should_materialize_source(mode, facts, insert_only)[1]

    def _user_metadata(self) -> str:
        own = self._spark.conf.get(_USER_METADATA, None)
        return merge_user_metadata(self._token, self._spec.user_metadata, own)

    def _hint(self, exc: BaseException) -> str:
        if not is_ambiguous(exc):
            return ""
        try:
            return self._ambiguous_keys()
        except SPARK_FAILURES:
            logger.debug("No sample of the ambiguous keys", exc_info=True)
            return ""

    def _ambiguous_keys(self) -> str:
        spec = self._spec
        source = spec.source.alias(spec.source_alias)
        target = self._target_rows().alias(spec.target_alias)
        on = as_column(spec.on)
        _, names = equi_join_keys(source.join(target, on))
        if not names:
            return ""
        matching = source.join(target, on, "left_semi")
        samples = key_problems(matching, names, None).duplicate_samples
        if not samples:
            return ""
        return (
            f"Source keys that occur more than once: {render_keys(names, samples)}. Keep one row "
            "per key before the merge."
        )

    def _log_retry(self, state: RetryCallState) -> None:
        pause = state.next_action.sleep if state.next_action else 0.0
        logger.info(
            "Merge into %s was overtaken by another writer; attempt %d follows in %.1f s.",
            self._spec.target,
            state.attempt_number + 1,
            pause,
        )
