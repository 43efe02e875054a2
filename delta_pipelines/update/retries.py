"""Which failures of a dataset are tried again, and how often."""

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from delta_pipelines.errors import is_transient
from delta_pipelines.update.lease import LeaseTimeoutError

MAX_ATTEMPTS = 3
"""How often a dataset is tried when its failure is transient."""


def retrying() -> Retrying:
    """Attempts at one dataset, with pauses between them; the last failure is raised."""
    return Retrying(
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        retry=retry_if_exception(_helps),
        reraise=True,
    )


def _helps(error: BaseException) -> bool:
    # A run that waited as long as it may does not wait again.
    return is_transient(error) and not isinstance(error, LeaseTimeoutError)
