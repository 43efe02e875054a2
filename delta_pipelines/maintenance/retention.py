"""Whether VACUUM may trust the retention time that a table has. Pure."""

from collections.abc import Mapping

from delta_pipelines.planning.schema.ownership import owned_keys

RETENTION = "delta.deletedFileRetentionDuration"


def retention_note(declared: Mapping[str, str], current: Mapping[str, str]) -> str | None:
    """Say why VACUUM has to wait for a refresh: it goes by the table, not by the declaration.

    Args:
        declared: The table's declared properties.
        current: The properties that it has.

    Returns:
        None when a refresh would leave the retention time as it is.

    Example:
        >>> days = {"delta.deletedFileRetentionDuration": "interval 30 days"}
        >>> retention_note(days, days) is None
        True
        >>> retention_note(days, {})[:21]
        'VACUUM was left out: '
    """
    wanted, present = _value(declared), _value(current)
    if wanted == present:
        return None
    if wanted is None and RETENTION.lower() not in map(str.lower, owned_keys(current)):
        return None  # somebody else set it, and a refresh keeps it
    return (
        f"VACUUM was left out: {RETENTION} is {_shown(wanted)} by the declaration and "
        f"{_shown(present)} on the table, so refresh it first"
    )


def _value(properties: Mapping[str, str]) -> str | None:
    # Delta knows its properties in every spelling and stores them in its own.
    return next((v for k, v in properties.items() if k.lower() == RETENTION.lower()), None)


def _shown(value: str | None) -> str:
    return "Delta's default" if value is None else repr(value)
