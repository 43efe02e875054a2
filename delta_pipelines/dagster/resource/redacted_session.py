"""A step's session: what the engine logs or raises there reaches Dagster without credentials."""

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
    """What gives a step its session; a `DeltaPipelineResource`."""

    @property
    def flat_config(self) -> dict[str, str]:
        """Its Spark settings: dotted keys, values as text."""
        ...

    def session_in_turn(self) -> SparkSession:
        """The session with its settings, for a run."""
        ...


class Guard:
    """A step's session, made when it is first asked for, and the credentials known by then.

    Args:
        resource: Makes the session.
    """

    def __init__(self, resource: SessionSource) -> None:
        self._resource = resource
        self.exit_stack = ExitStack()
        """Ends the session's turn."""
        self.known = Redaction.of(os.environ)

    def session(self) -> SparkSession:
        """The session.

        Raises:
            SessionError: As `DeltaPipelineResource.spark_session` does.
        """
        self.known = Redaction.of(self._resource.flat_config, os.environ)
        spark = self._resource.session_in_turn()
        self.exit_stack.enter_context(run_of(spark))
        self.known = self.known.knowing(settings_of(spark))
        return spark


@contextmanager
def guarded(resource: SessionSource, log: logging.Logger) -> Iterator[Guard]:
    """Guard a step that may need its session.

    Args:
        resource: Makes the session.
        log: The step's `context.log`; the engine's lines of the block go there.

    Raises:
        Failure: For a PipelineError of the block; Dagster stores it, with its causes.
        Exception: What else the block raises, without credentials; see `Redaction.anybodys`.
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
    """Give a step its session at once, and the redaction that knows the session's credentials.

    Args:
        resource: Makes the session.
        log: The step's `context.log`; the engine's lines of the block go there.

    Raises:
        Failure: As `guarded` does.
        Exception: As `guarded` does.
    """
    with guarded(resource, log) as guard:
        spark = guard.session()
        yield spark, guard.known


def as_failure(error: PipelineError) -> dg.Failure:
    """A Dagster failure that says what the error says, and is retried only if that can help."""
    return dg.Failure(str(error), allow_retries=error.transient)
