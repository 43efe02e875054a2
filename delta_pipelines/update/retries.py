"""Retries of a dataset after transient failures."""

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from delta_pipelines.errors import is_transient
from delta_pipelines.update.lease import LeaseTimeoutError

MAX_ATTEMPTS = 3
"""Maximum attempts at a dataset, including the first."""


def retrying() -> Retrying:
    """Retry one dataset with pauses between the attempts; the last failure is raised."""
    return Retrying(
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        retry=retry_if_exception(_helps),
        reraise=True,
    )


def _helps(error: BaseException) -> bool:
    # After a lease timeout the run has already waited for as long as it may.
    return is_transient(error) and not isinstance(error, LeaseTimeoutError)
