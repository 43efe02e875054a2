"""Partitions by windows of time: hours, days, weeks and months. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo

from delta_pipelines.errors import DeclarationError
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.partition_range import (
    SEPARATOR,
    ColumnPartitions,
    PartitionRange,
    neighbours,
    range_text,
)
from delta_pipelines.model.partition_times import (
    in_utc,
    in_zone,
    is_zone,
    on_the_wall,
    passed,
    stored_window,
    time_literal,
)

_UTC = timezone.utc
_Convert = Callable[[datetime], datetime]
_DAY = "%Y-%m-%d"
_HOUR = "%Y-%m-%d-%H:%M"
_LAST_DAY_OF_EVERY_MONTH = 28
_YEARS = range(1000, 9999)
"""In which a start lies, so that its windows can be computed in every time zone."""


@dataclass(frozen=True)
class TimePartitions(ColumnPartitions):
    """Partitions by windows of time; use `DailyPartitions` and its siblings.

    Args:
        column: The column of the table that says to which partition a row belongs.
        start: Start of the first partition, such as `2024-01-01`.
        end: End of the last partition, exclusive; None for no end.
        timezone: IANA name of the time zone of the windows.
        end_offset: Number of partitions after the last one that lies in the past; negative to
            leave out the last ones.
    """

    start: str = field(default="", kw_only=True)
    end: str | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    end_offset: int = field(default=0, kw_only=True)

    key_format: ClassVar[str] = _DAY
    default_type: ClassVar[str] = "date"
    """Type of the column, as SQL writes it, until the query shows another one."""
    types: ClassVar[tuple[str, ...]] = ("date", "timestamp", "timestamp_ntz")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_zone(self.timezone):
            raise self._wrong(
                f"timezone {self.timezone!r} is not a time zone; write an IANA name such as "
                f"'Europe/Berlin'."
            )
        if not isinstance(self.end_offset, int) or isinstance(self.end_offset, bool):
            raise self._wrong(f"end_offset is an integer, not {self.end_offset!r}.")
        first = self._given("start")
        if first.year not in _YEARS:
            raise self._wrong(f"start {self.start!r} must lie in the years 1000 to 9998.")
        if self.end is not None and in_utc(self._given("end")) <= in_utc(first):
            raise self._wrong(f"end {self.end!r} must be after start {self.start!r}.")

    @property
    def text(self) -> str:
        """What divides the rows, without the first and the last partition."""
        return f"{self.kind}({self.column}, {self.timezone}{self._phase()})"

    @property
    def limit(self) -> datetime | None:
        """When the last partition must have ended, in UTC; None for no end."""
        return None if self.end is None else self._parsed(self.end, "end").astimezone(_UTC)

    @property
    def first_key(self) -> str:
        """The key of the first partition, in the past or not."""
        return self.key_of(self._parsed(self.start, "start"))

    def keys(self, now: datetime) -> tuple[str, ...]:
        """The keys of all partitions that lie in the past, in order.

        Args:
            now: The time, with a time zone.
        """
        return _keys(self, passed(self.starts(), self.limit, self.end_offset, now))

    def starts(self) -> Iterator[datetime]:
        """The starts of all windows from the first one on, without end."""
        local = self._parsed(self.start, "start")
        while True:
            yield local
            local = self._next(local)

    def start_of(self, key: str) -> datetime:
        """The start of a partition.

        Args:
            key: A key of `keys`.
        """
        return self._parsed(key, "key")

    def end_of(self, key: str) -> datetime:
        """The end of a partition, exclusive.

        Args:
            key: A key of `keys`.
        """
        return self._next(self.start_of(key))

    def key_of(self, start: datetime) -> str:
        """The key of the window that starts at a time.

        Source of the rule: Dagster, which adds the offset to the second of two equal local times.
        """
        return start.strftime(f"{self.key_format}%z" if start.fold else self.key_format)

    def range(self, keys: Sequence[str], column_type: str | None = None) -> PartitionRange:
        """The range of some neighbouring partitions.

        Args:
            keys: Their keys, in order.
            column_type: Type of the column as SQL writes it; None for the usual one.

        Raises:
            DeclarationError: A column of this type cannot divide rows into these windows.
        """
        start, end = self.start_of(keys[0]), self.end_of(keys[-1])
        kind = column_type or self.default_type
        low, high = self._literal(start, kind), self._literal(end, kind)
        name = quoted(self.column)
        condition = f"{name} >= {low} AND {name} < {high}"
        return PartitionRange(tuple(keys), condition, start, end)

    def recorded(self, every: Sequence[str], chosen: Collection[str]) -> list[str]:
        """Some partitions as ranges, as a commit records them.

        Args:
            every: All keys, in order.
            chosen: Some of them.
        """
        return [range_text(run) for run in neighbours(every, chosen)]

    def expanded(self, every: Sequence[str], texts: Iterable[str]) -> frozenset[str]:
        """The keys that a commit recorded, without those that are not partitions any more.

        Args:
            every: All keys, in order.
            texts: From `recorded`.
        """
        found: set[str] = set()
        for text in texts:
            first, _, last = text.partition(SEPARATOR)
            try:
                low, high = self._order(first), self._order(last or first)
            except DeclarationError:
                continue  # not a string of `recorded`
            begin = bisect_left(every, low, key=self._order)
            found.update(every[begin : bisect_right(every, high, key=self._order)])
        return frozenset(found)

    def overlapping(self, every: Sequence[str], start: datetime, end: datetime) -> tuple[str, ...]:
        """The partitions that have a time in common with a window.

        Args:
            every: The keys to choose from, in order.
            start: Start of the window.
            end: Its end, exclusive.
        """
        return self._between(every, in_utc(start), in_utc(end), in_utc)

    def touched(self, every: Sequence[str], low: str, high: str, column_type: str) -> list[str]:
        """The partitions of the rows of a file, from the file's statistics.

        Args:
            every: The keys to choose from, in order.
            low: Least value of the column, as Delta's log has it.
            high: Greatest value.
            column_type: Type of the column, as SQL writes it.

        Raises:
            ValueError: A value is not a date or a time.
        """
        start, end = stored_window(low, high, column_type)
        if column_type == "timestamp":
            return list(self.overlapping(every, start, end))
        return list(self._between(every, start, end, on_the_wall))

    def _between(
        self, every: Sequence[str], low: datetime, high: datetime, convert: _Convert
    ) -> tuple[str, ...]:
        begins = _begins(self, tuple(every), convert)
        first, last = max(0, bisect_right(begins, low) - 1), bisect_left(begins, high)
        inside = tuple(every[first:last])
        is_over = bool(inside) and convert(self.end_of(inside[0])) <= low
        return inside[1:] if is_over else inside

    def _order(self, key: str) -> tuple[datetime, str]:
        # A clock set back by two hours repeats two, and a day that a zone leaves out has no time.
        return in_utc(self.start_of(key)), key

    def _next(self, local: datetime) -> datetime:
        raise NotImplementedError

    def _phase(self) -> str:
        return ""

    def _literal(self, moment: datetime, kind: str) -> str:
        if kind not in self.types:
            listed = " or ".join(self.types)
            raise self._wrong(f"column {self.column} is {kind}; make it {listed}.")
        return time_literal(moment, kind)

    def _given(self, what: str) -> datetime:
        """The start or the end; stored as its key from then on."""
        given: object = getattr(self, what)
        if isinstance(given, datetime):
            given = in_zone(given, ZoneInfo(self.timezone))
            key: object = self.key_of(given)
        else:
            key = given.strftime(self.key_format) if isinstance(given, date) else given
        moment = self._parsed(key, what)
        if isinstance(given, datetime) and on_the_wall(given) != on_the_wall(moment):
            raise self._wrong(f"{what} {given} is not the first moment of a partition.")
        object.__setattr__(self, what, self.key_of(moment))
        return moment

    def _parsed(self, text: object, what: str) -> datetime:
        zone = ZoneInfo(self.timezone)
        for known in dict.fromkeys((self.key_format, _DAY)):
            try:
                return datetime.strptime(str(text), known).replace(tzinfo=zone)
            except ValueError:
                continue
        example = datetime(2024, 1, 5, tzinfo=_UTC).strftime(self.key_format)
        raise self._wrong(f"{what} must be like {example!r}, not {text!r}.")

    def _wrong(self, text: str) -> DeclarationError:
        return DeclarationError(f"{type(self).__name__}: {text}")


class DailyPartitions(TimePartitions):
    """One partition for each day; its key is `2024-01-05`.

    The column is a DATE, TIMESTAMP or TIMESTAMP_NTZ.

    Args:
        column: The column of the table that says to which day a row belongs.
        start: The first day.
        end: The day after the last one; None for no end.
        timezone: IANA name of the time zone of the days.
        end_offset: 1 to include today, whose day has not ended; -1 to leave out yesterday.

    Example:
        >>> days = DailyPartitions("day", start="2024-01-01", end="2024-01-03")
        >>> days.keys(datetime(2025, 1, 1, tzinfo=timezone.utc))
        ('2024-01-01', '2024-01-02')
    """

    kind = "daily"

    def _next(self, local: datetime) -> datetime:
        return local + timedelta(days=1)


class WeeklyPartitions(TimePartitions):
    """One partition for each week; its key is its first day, `2024-01-07`.

    A week begins on the weekday of `start`. The column is a DATE, TIMESTAMP or TIMESTAMP_NTZ.

    Args:
        column: The column of the table that says to which week a row belongs.
        start: The first day of the first week.
        end: End of the last week, exclusive; None for no end.
        timezone: IANA name of the time zone of the weeks.
        end_offset: 1 to include the current week.

    Example:
        >>> WeeklyPartitions("day", start="2024-01-07").range(["2024-01-14"]).condition
        "`day` >= DATE '2024-01-14' AND `day` < DATE '2024-01-21'"
    """

    kind = "weekly"

    def _next(self, local: datetime) -> datetime:
        return local + timedelta(days=7)

    def _phase(self) -> str:
        return f", from {self._parsed(self.start, 'start'):%A}"


class MonthlyPartitions(TimePartitions):
    """One partition for each month; its key is its first day, `2024-01-01`.

    A month begins on the day of `start`. The column is a DATE, TIMESTAMP or TIMESTAMP_NTZ.

    Args:
        column: The column of the table that says to which month a row belongs.
        start: The first day of the first month; not after the 28th.
        end: End of the last month, exclusive; None for no end.
        timezone: IANA name of the time zone of the months.
        end_offset: 1 to include the current month.

    Example:
        >>> MonthlyPartitions("day", start="2024-01-01").range(["2024-02-01"]).condition
        "`day` >= DATE '2024-02-01' AND `day` < DATE '2024-03-01'"
    """

    kind = "monthly"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._parsed(self.start, "start").day > _LAST_DAY_OF_EVERY_MONTH:
            raise self._wrong(f"start {self.start!r} is a day that some months do not have.")

    def _next(self, local: datetime) -> datetime:
        years, month = divmod(local.month, 12)
        return local.replace(year=local.year + years, month=month + 1)

    def _phase(self) -> str:
        return f", from day {self._parsed(self.start, 'start').day}"


class HourlyPartitions(TimePartitions):
    """One partition for each hour; its key is `2024-01-05-13:00`.

    An hour begins at the minute of `start`. The column is a TIMESTAMP, or a TIMESTAMP_NTZ where
    `timezone` is UTC.

    Args:
        column: The column of the table that says to which hour a row belongs.
        start: The first hour, such as `2024-01-01-00:00`; a day alone is its first hour.
        end: End of the last hour, exclusive; None for no end.
        timezone: IANA name of the time zone of the keys.
        end_offset: 1 to include the current hour.

    Example:
        >>> HourlyPartitions("at", start="2024-01-01").range(["2024-01-01-05:00"]).condition
        "`at` >= TIMESTAMP '2024-01-01 05:00:00Z' AND `at` < TIMESTAMP '2024-01-01 06:00:00Z'"
    """

    kind = "hourly"
    key_format = _HOUR
    default_type = "timestamp"
    types = ("timestamp", "timestamp_ntz")

    def range(self, keys: Sequence[str], column_type: str | None = None) -> PartitionRange:
        """As for all partitions by time."""
        if column_type == "timestamp_ntz" and self.timezone != "UTC":
            raise self._wrong(
                f"column {self.column} is a TIMESTAMP_NTZ, in which an hour of {self.timezone} can "
                f"occur twice: make it a TIMESTAMP, or use timezone='UTC'."
            )
        return super().range(keys, column_type)

    def _parsed(self, text: object, what: str) -> datetime:
        zone = ZoneInfo(self.timezone)
        try:
            found = datetime.strptime(str(text), f"{self.key_format}%z")
        except ValueError:
            # An hour that the clock leaves out is the next one.
            return super()._parsed(text, what).astimezone(_UTC).astimezone(zone)
        local = found.astimezone(zone)
        if local.utcoffset() != found.utcoffset():
            wrong = f"{what} {text!r}: {self.timezone} does not have this UTC offset at that time."
            raise self._wrong(wrong)
        return local

    def _next(self, local: datetime) -> datetime:
        return (local.astimezone(_UTC) + timedelta(hours=1)).astimezone(local.tzinfo)

    def _phase(self) -> str:
        minute = self._parsed(self.start, "start").minute
        return f", from minute {minute}" if minute else ""


@lru_cache(maxsize=64)
def _begins(
    partitions: TimePartitions, every: tuple[str, ...], convert: _Convert
) -> list[datetime]:
    return [convert(partitions.start_of(key)) for key in every]


@lru_cache(maxsize=256)
def _keys(partitions: TimePartitions, count: int) -> tuple[str, ...]:
    starts = partitions.starts()
    return tuple(partitions.key_of(next(starts)) for _ in range(count))
