"""Times of partitions and of Delta's statistics, compared without surprises. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


def in_utc(moment: datetime) -> datetime:
    """A moment in UTC; the first or the last one that exists if UTC has none.

    Python compares two times of one zone by their local texts, which can occur twice.

    Args:
        moment: It has a time zone.

    Example:
        >>> str(in_utc(datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))).year)
        '9999'
    """
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        return _FIRST if moment.year < _LAST.year else _LAST


def is_zone(name: str) -> bool:
    """True for the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return False
    return True


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """A moment in a time zone; a time without one is already what its clock shows."""
    return moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)


def on_the_wall(moment: datetime) -> datetime:
    """What a clock of its time zone shows: values of DATE and TIMESTAMP_NTZ are such texts."""
    return moment.replace(tzinfo=None, fold=0)


def time_literal(moment: datetime, kind: str) -> str:
    """A moment as SQL of a type: date, timestamp or timestamp_ntz.

    Example:
        >>> time_literal(datetime(2024, 1, 5, tzinfo=timezone.utc), "date")
        "DATE '2024-01-05'"
    """
    if kind == "date":
        return f"DATE '{moment:%Y-%m-%d}'"
    if kind == "timestamp":
        return f"TIMESTAMP '{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}Z'"
    return f"TIMESTAMP_NTZ '{moment:%Y-%m-%d %H:%M:%S}'"


def stored_window(low: str, high: str, column_type: str) -> tuple[datetime, datetime]:
    """The window of the rows of a file, from the file's statistics.

    Args:
        low: Least value, as Delta's log has it.
        high: Greatest value; Delta cuts it to milliseconds.
        column_type: date, timestamp or timestamp_ntz.

    Raises:
        ValueError: A value is not a date or a time.

    Example:
        >>> [str(border) for border in stored_window("2024-01-05", "2024-01-06", "date")]
        ['2024-01-05 00:00:00', '2024-01-07 00:00:00']
    """
    step = timedelta(days=1) if column_type == "date" else timedelta(milliseconds=1)
    start, end = _stored_time(low), _later(_stored_time(high), step)
    has_zone = column_type == "timestamp"
    if any((moment.tzinfo is not None) != has_zone for moment in (start, end)):
        raise ValueError(low)
    return start, end


def _stored_time(text: str) -> datetime:
    # Python 3.10 does not read the Z.
    return datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)


def _later(moment: datetime, step: timedelta) -> datetime:
    try:
        return moment + step
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def passed(starts: Iterator[datetime], limit: datetime | None, offset: int, now: datetime) -> int:
    """The number of windows that lie in the past.

    Args:
        starts: Starts of the windows, without end; each is the end of the one before.
        limit: When the last one must have ended; None for no end.
        offset: How many more, or fewer, count as past; none does before the first one starts.
        now: The time, with a time zone.
    """
    over = within = 0
    borders = (start.astimezone(timezone.utc) for start in starts)
    if now < next(borders):
        return 0
    for end in borders:
        over += end <= now
        within += limit is None or end <= limit
        is_past_limit = limit is not None and end > limit
        if end > now and (is_past_limit or within >= over + offset):
            break
    return max(0, min(over + offset, within))
