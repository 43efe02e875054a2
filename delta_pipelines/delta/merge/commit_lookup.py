"""Finding the commit that a merge made, among those of other writers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.delta.log.loading import whole_numbers

TOKEN = "merge_token"
"""Key of the merge's own mark in the commit's user metadata."""


@dataclass(frozen=True)
class MergeCommit:
    """A merge's commit.

    Args:
        version: Its Delta version.
        metrics: The whole numbers of its `operationMetrics`.
    """

    version: int
    metrics: dict[str, int]


def merge_user_metadata(
    token: str, facts: Mapping[str, object] | None, session_text: str | None
) -> str:
    """Compose the user metadata of a merge's commit: one JSON object.

    Args:
        token: The merge's own mark, kept under `merge_token`.
        facts: The caller's own keys, kept at the top level.
        session_text: The session's `spark.databricks.delta.commitInfo.userMetadata`, kept
            word for word under `user_metadata`.

    Example:
        >>> merge_user_metadata("f3", {"run_id": "7"}, "nightly")
        '{"run_id": "7", "user_metadata": "nightly", "merge_token": "f3"}'
    """
    content = dict(facts or {})
    if session_text is not None:
        content["user_metadata"] = session_text
    content[TOKEN] = token
    return json.dumps(content, default=str)


def latest_version(target: DeltaTable) -> int:
    """The version of a table's newest commit, read from its log now."""
    jvm = Jvm(target._spark)
    return int(target._jdt.deltaLog().update(False, jvm.none, jvm.none).version())


def find_merge_commit(target: DeltaTable, after: int, token: str) -> MergeCommit | None:
    """Find the commit that carries a merge's token; no Spark job runs.

    Args:
        target: The merge's target.
        after: A version that was there before the merge began.
        token: What `merge_user_metadata` was given.

    Returns:
        The commit, or None when the merge made none. An automatic compaction that follows a merge
        carries the same user metadata and is not taken for it.
    """
    jvm = Jvm(target._spark)
    log = target._jdt.deltaLog()
    commits = log.getChangeLogFiles(after + 1, jvm.none, False)
    while commits.hasNext():
        commit = commits.next()
        content = _commit_info(jvm, log, commit._2().getPath())
        if content is None:
            continue
        if content.get("operation") == "MERGE" and _has_token(content.get("userMetadata"), token):
            metrics = whole_numbers(content.get("operationMetrics") or {})
            return MergeCommit(int(commit._1()), metrics)
    return None


def _commit_info(jvm: Jvm, log: JavaObject, path: JavaObject) -> dict[str, Any] | None:
    """What a commit says about itself; Delta reads no more of the file than that."""
    history = jvm.delta.DeltaHistoryManager
    info = optional(history.getCommitInfoOpt(log.store(), path, log.newDeltaHadoopConf()))
    if info is None:
        return None
    content: dict[str, Any] = json.loads(info.json())["commitInfo"]
    return content


def _has_token(user_metadata: str | None, token: str) -> bool:
    return user_metadata is not None and f'"{TOKEN}": "{token}"' in user_metadata
