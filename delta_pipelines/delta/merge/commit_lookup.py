"""Find a merge's commit among the commits of all writers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.delta.log.loading import whole_numbers

TOKEN = "merge_token"
"""Key of the merge's token in the commit's user metadata."""


@dataclass(frozen=True)
class MergeCommit:
    """A merge's commit.

    Args:
        version: Its Delta version.
        metrics: The integers of its `operationMetrics`.
    """

    version: int
    metrics: dict[str, int]


def merge_user_metadata(
    token: str, facts: Mapping[str, object] | None, session_text: str | None
) -> str:
    """Compose the user metadata of a merge's commit: one JSON object.

    Args:
        token: Identifies the merge; becomes the key `merge_token`.
        facts: The caller's keys; become top-level keys.
        session_text: The session's `spark.databricks.delta.commitInfo.userMetadata`; becomes
            the key `user_metadata`, unchanged.

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
    """Read the version of a table's newest commit from its log."""
    jvm = Jvm(target._spark)
    return int(target._jdt.deltaLog().update(False, jvm.none, jvm.none).version())


def find_merge_commit(target: DeltaTable, after: int, token: str) -> MergeCommit | None:
    """Find the commit with a merge's token; no Spark job runs.

    Args:
        after: A version that existed before the merge started.
        token: The token that was passed to `merge_user_metadata`.

    Returns:
        The commit, or None when the merge made none. An automatic compaction after the merge has
        the same user metadata, but is not returned.
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
    """Read a commit's `commitInfo`; Delta reads only this action of the file."""
    history = jvm.delta.DeltaHistoryManager
    info = optional(history.getCommitInfoOpt(log.store(), path, log.newDeltaHadoopConf()))
    if info is None:
        return None
    content: dict[str, Any] = json.loads(info.json())["commitInfo"]
    return content


def _has_token(user_metadata: str | None, token: str) -> bool:
    return user_metadata is not None and f'"{TOKEN}": "{token}"' in user_metadata
