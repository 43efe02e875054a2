"""The session of a step, whose log lines and errors reach Dagster without credentials."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

import dagster as dg
from pyspark.sql import SparkSession

from delta_pipelines.dagster.resource.log_forwarding import forwarded
from delta_pipelines.dagster.resource.shared_session import run_of
from delta_pipelines.delta.jvm.sessions import settings_of
from delta_pipelines.errors import PipelineError
from delta_pipelines.security.redaction import Redaction


class SessionSource(Protocol):
    """Provides the session of a step; a `DeltaPipelineResource`."""

    @property
    def flat_config(self) -> dict[str, str]:
        """Its Spark settings as flat dotted keys with text values."""
        ...

    def session_for_run(self) -> SparkSession:
        """The session with its settings, for a run."""
        ...


class Guard:
    """The lazily created session of a step, and the redaction that knows its credentials."""

    def __init__(self, resource: SessionSource) -> None:
        self._resource = resource
        self.exit_stack = ExitStack()
        """Releases the session's settings at the end of the step."""
        self.known = Redaction.of(os.environ)

    def session(self) -> SparkSession:
        """Create or find the session.

        Raises:
            SessionError: As for `DeltaPipelineResource.spark_session`.
        """
        self.known = Redaction.of(self._resource.flat_config, os.environ)
        spark = self._resource.session_for_run()
        self.exit_stack.enter_context(run_of(spark))
        self.known = self.known.knowing(settings_of(spark))
        return spark


@contextmanager
def guarded(resource: SessionSource, log: logging.Logger) -> Iterator[Guard]:
    """Redact the log lines and errors of a step that may need a session.

    Args:
        resource: Provides the session.
        log: The step's `context.log`, which gets the engine's log lines.

    Raises:
        Failure: For a PipelineError of the block; Dagster stores it with its causes.
        Exception: Any other exception of the block, redacted; see `Redaction.anybodys`.
    """
    guard = Guard(resource)
    try:
        with guard.exit_stack, forwarded(log, lambda line: guard.known.text(line)):
            yield guard
    except PipelineError as error:
        raise as_failure(guard.known.error(error)) from error
    except Exception as error:
        redacted = guard.known.anybodys(error)
        if redacted is error and redacted.__traceback__ is not None:
            raise
        raise redacted from redacted.__cause__


@contextmanager
def guarded_session(
    resource: SessionSource, log: logging.Logger
) -> Iterator[tuple[SparkSession, Redaction]]:
    """Start the session of a step at once; yield it with its redaction.

    Args and exceptions are those of `guarded`.
    """
    with guarded(resource, log) as guard:
        spark = guard.session()
        yield spark, guard.known


def as_failure(error: PipelineError) -> dg.Failure:
    """Convert an error into a Dagster failure, which is retried only if the error is transient."""
    return dg.Failure(str(error), allow_retries=error.transient)
