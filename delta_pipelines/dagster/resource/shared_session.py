"""Several resources of one process take turns with its one session; each finds its own settings.

A Dagster run is one process and has one JVM. When assets of two pipelines are in it, whose
resources ask for other Spark settings, those of the first must not stay for the second: its rows
would be computed, and its views published, by settings that it never asked for.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import can_change, set_or_unset


@dataclass(frozen=True)
class _Noted:
    without: str | None
    """The setting's value where no resource asks for it; None where it is not set then."""
    left: str | None
    """What the last turn left; another value since then is somebody else's, and stays theirs."""


@dataclass(eq=False)
class _SharedState:
    noted: dict[str, _Noted] = field(default_factory=dict)
    """The settings that some resource has asked for."""
    owner: object = None
    """Who had the last turn."""
    runs: int = 0
    """Runs that are under way and rely on their turn."""


_sessions: "WeakKeyDictionary[SparkSession, _SharedState]" = WeakKeyDictionary()
_guard = threading.RLock()


def note_start(spark: SparkSession, asked: Mapping[str, str], without: Mapping[str, str]) -> None:
    """Remember of a session that a resource has started what its settings are without it.

    Args:
        spark: The session, started with the resource's settings.
        asked: The resource's settings.
        without: What the session would have been started with but for these.
    """
    noted = {
        key: _Noted(without.get(key), spark.conf.get(key, None))
        for key in asked
        if can_change(spark, key)
    }
    with _guard:
        _sessions[spark] = _SharedState(noted)


def apply_settings(spark: SparkSession, asked: Mapping[str, str], owner: object) -> None:
    """Set a resource's settings, and put back what only others have asked for.

    Args:
        spark: A session, whoever started it.
        asked: The resource's settings. Those that Spark reads only at its start stay as they are.
        owner: Stands for the resource.
    """
    with _guard:
        state = _sessions.setdefault(spark, _SharedState())
        for key in {**state.noted, **asked}:
            if key not in state.noted and not can_change(spark, key):
                continue
            live, known = spark.conf.get(key, None), state.noted.get(key)
            without = known.without if known and known.left == live else live
            value = asked.get(key, without)
            if value != live:
                set_or_unset(spark, key, value)
            state.noted[key] = _Noted(without, value)
        state.owner = owner


def may_apply_settings(spark: SparkSession, owner: object) -> bool:
    """Tell whether a resource finds another one's settings in a session, and may change that.

    Args:
        spark: The session.
        owner: Stands for the resource.

    Returns:
        False while a run is under way, whose datasets begin with the session's settings.
    """
    with _guard:
        state = _sessions.get(spark)
        return state is None or (state.owner is not owner and not state.runs)


@contextmanager
def run_of(spark: SparkSession) -> Iterator[None]:
    """Keep the session's settings for a run while the block runs.

    Args:
        spark: The session, right after a turn was taken.
    """
    with _guard:
        state = _sessions.setdefault(spark, _SharedState())
        state.runs += 1
    try:
        yield
    finally:
        with _guard:
            state.runs -= 1
