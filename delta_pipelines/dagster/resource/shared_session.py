"""Share the one session of a process between resources with different Spark settings.

A Dagster run is one process with one JVM. If it has assets of two pipelines with different Spark
settings, the settings of the first must not stay for the second. Otherwise the second would compute
its rows, and publish its views, with settings that it did not request.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import can_change, set_or_unset


@dataclass(frozen=True)
class _Setting:
    without: str | None
    """The setting's value if no resource requests one; None if it is then not set."""
    left: str | None
    """The value that a resource set last; a different value now was set by the user, and stays."""


@dataclass(eq=False)
class _SharedState:
    settings: dict[str, _Setting] = field(default_factory=dict)
    """The settings that some resource has requested."""
    owner: object = None
    """The resource that applied its settings last."""
    runs: int = 0
    """Number of active runs, which rely on the settings."""


_sessions: "WeakKeyDictionary[SparkSession, _SharedState]" = WeakKeyDictionary()
_guard = threading.RLock()


def note_start(
    spark: SparkSession, requested: Mapping[str, str], without: Mapping[str, str]
) -> None:
    """Record the settings that a session would have without the resource that started it.

    Args:
        spark: The session, started with the resource's settings.
        requested: The resource's settings.
        without: The settings of the session without those of the resource.
    """
    settings = {
        key: _Setting(without.get(key), spark.conf.get(key, None))
        for key in requested
        if can_change(spark, key)
    }
    with _guard:
        _sessions[spark] = _SharedState(settings)


def apply_settings(spark: SparkSession, requested: Mapping[str, str], owner: object) -> None:
    """Apply the settings of a resource, and reset those that only other resources requested.

    Args:
        requested: The resource's settings. Settings that Spark reads only at its start are ignored.
        owner: Identifies the resource.
    """
    with _guard:
        state = _sessions.setdefault(spark, _SharedState())
        for key in {**state.settings, **requested}:
            if key not in state.settings and not can_change(spark, key):
                continue
            live, setting = spark.conf.get(key, None), state.settings.get(key)
            without = setting.without if setting and setting.left == live else live
            value = requested.get(key, without)
            if value != live:
                set_or_unset(spark, key, value)
            state.settings[key] = _Setting(without, value)
        state.owner = owner


def may_apply_settings(spark: SparkSession, owner: object) -> bool:
    """True if the session has the settings of another resource, and no run relies on them.

    Args:
        owner: Identifies the resource.
    """
    with _guard:
        state = _sessions.get(spark)
        return state is None or (state.owner is not owner and not state.runs)


@contextmanager
def run_of(spark: SparkSession) -> Iterator[None]:
    """Keep the session's settings for a run while the block runs.

    Args:
        spark: The session, right after `apply_settings`.
    """
    with _guard:
        state = _sessions.setdefault(spark, _SharedState())
        state.runs += 1
    try:
        yield
    finally:
        with _guard:
            state.runs -= 1
