"""Check the retention time of a table before VACUUM. Pure."""

from collections.abc import Mapping

from delta_pipelines.planning.schema.ownership import owned_keys

RETENTION = "delta.deletedFileRetentionDuration"


def retention_note(declared: Mapping[str, str], current: Mapping[str, str]) -> str | None:
    """Explain why VACUUM must wait for a refresh, which changes the table's retention time.

    VACUUM uses the property of the table, not the one of the declaration.

    Args:
        declared: The table's declared properties.

    Returns:
        None when a refresh would not change the retention time.

    Example:
        >>> days = {"delta.deletedFileRetentionDuration": "interval 30 days"}
        >>> retention_note(days, days) is None
        True
        >>> retention_note(days, {})[:18]
        'VACUUM was skipped'
    """
    wanted, present = _value(declared), _value(current)
    if wanted == present:
        return None
    if wanted is None and RETENTION.lower() not in map(str.lower, owned_keys(current)):
        return None  # set by a user on the table, and a refresh keeps it
    return (
        f"VACUUM was skipped: {RETENTION} is {_shown(wanted)} in the declaration and "
        f"{_shown(present)} on the table, so refresh the table first"
    )


def _value(properties: Mapping[str, str]) -> str | None:
    # Property names are case-insensitive in Delta.
    return next((v for k, v in properties.items() if k.lower() == RETENTION.lower()), None)


def _shown(value: str | None) -> str:
    return "Delta's default" if value is None else repr(value)
