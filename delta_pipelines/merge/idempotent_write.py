"""Idempotent merges: a number in the session, which the table records, prevents a second run.

Source of the rule: Delta's docs on idempotent writes, and its `DeltaCommand`.
"""

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.errors import MergeError
from delta_pipelines.model.setting_names import TXN_APPLICATION, TXN_AUTO_RESET, TXN_NUMBER


def numbered_write(session: SparkSession, target: str) -> tuple[str, int] | None:
    """Read the application and the number of the session's next write; None if they are not set.

    Raises:
        MergeError: Only one of the two is set.
    """
    application = session.conf.get(TXN_APPLICATION, None)
    number = session.conf.get(TXN_NUMBER, None)
    if (application is None) != (number is None):
        raise MergeError(
            f"[DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS] only one of {TXN_APPLICATION} and "
            f"{TXN_NUMBER} is set: set both or neither.",
            dataset=target,
        )
    return None if application is None else (str(application), int(str(number)))


def forget_number(session: SparkSession) -> None:
    """Unset the number after a merge if Delta would, so that the next write needs a new one.

    Delta's own MERGE does that only in its own session, which is a copy of the user's.
    """
    if is_on(session, TXN_AUTO_RESET, "false"):
        session.conf.unset(TXN_NUMBER)
