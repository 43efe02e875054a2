"""Check cron expressions and time zones of schedules while the code location loads."""

import zoneinfo
from collections.abc import Sequence

import dagster as dg
from dagster_shared.check import CheckError

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.suggestions import suggestion

_CRON = "a cron expression (minute, hour, day of month, month, day of week)"
_EXAMPLES = "'0 * * * *' for each hour, '0 3 * * 0' for 3:00 on Sundays"


def checked_cron(given: object, what: str) -> str | Sequence[str] | None:
    """Check and return a cron expression; None for no schedule.

    Args:
        given: Value of the argument.
        what: Name of the argument.

    Raises:
        DeclarationError: It is not a cron expression; gives examples.
    """
    if given is None:
        return None
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise DeclarationError(
            f"{what} is {_CRON} as a string, not {type(given).__name__} {given!r}: "
            f"{_EXAMPLES}; None for no schedule."
        )
    try:
        dg.ScheduleDefinition(cron_schedule=given, job_name="any")  # type: ignore[arg-type]
    except (dg.DagsterError, CheckError, ValueError) as error:
        raise DeclarationError(f"{what}: {given!r} is not {_CRON}: {_EXAMPLES}.") from error
    return given  # type: ignore[return-value]


def check_timezone(given: object) -> None:
    """Reject an invalid time zone.

    Args:
        given: Value of the argument `execution_timezone`; None for UTC.

    Raises:
        DeclarationError: It is not the name of a time zone; suggests the nearest name.
    """
    if given is None:
        return
    if not isinstance(given, str):
        named = getattr(given, "key", None)
        example = named if isinstance(named, str) else "Europe/Berlin"
        raise DeclarationError(
            f"execution_timezone is the name of a time zone as a string, not "
            f"{type(given).__name__} {given!r}: write {example!r}."
        )
    try:
        # Dagster treats an empty name as None.
        name = given.strip() or "empty"
        dg.ScheduleDefinition(cron_schedule="0 0 * * *", job_name="any", execution_timezone=name)
    except (dg.DagsterError, CheckError, ValueError) as error:
        nearest = suggestion(given, zoneinfo.available_timezones())
        hint = nearest if "did you mean" in nearest else "; write one such as 'Europe/Berlin'."
        raise DeclarationError(
            f"execution_timezone {given!r} is not the name of a time zone{hint}"
        ) from error
