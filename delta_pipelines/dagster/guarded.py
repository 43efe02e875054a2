"""A step's session: what the engine logs or raises there reaches Dagster without credentials."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
from pyspark.sql import SparkSession

from delta_pipelines.dagster.log_forwarding import forwarded
from delta_pipelines.delta.sessions import settings_of
from delta_pipelines.errors import PipelineError
from delta_pipelines.redaction import Redaction

if TYPE_CHECKING:
    from delta_pipelines.dagster.resource import DeltaPipelineResource


@contextmanager
def guarded_session(
    resource: "DeltaPipelineResource", log: logging.Logger
) -> Iterator[tuple[SparkSession, Redaction]]:
    """Give a step its session, and the redaction that knows the session's credentials.

    Args:
        resource: Makes the session when it is first needed.
        log: The step's `context.log`; the engine's lines of the block go there.

    Raises:
        Failure: For a PipelineError of the block; Dagster stores it, with its causes.
        Exception: What else the block raises, without credentials; see `Redaction.anybodys`.
    """
    known = Redaction.of(resource.flat_config, os.environ)
    try:
        with forwarded(log, known.text):
            spark = resource.spark_session
        known = known.knowing(settings_of(spark))
        with forwarded(log, known.text):
            yield spark, known
    except PipelineError as error:
        raise as_failure(known.error(error)) from error
    except Exception as error:
        told = known.anybodys(error)
        if told is error and told.__traceback__ is not None:
            raise
        raise told from told.__cause__


def as_failure(error: PipelineError) -> dg.Failure:
    """A Dagster failure that says what the error says, and is retried only if that can help."""
    return dg.Failure(str(error), allow_retries=error.transient)
