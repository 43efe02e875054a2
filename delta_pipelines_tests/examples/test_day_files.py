"""Day files of flights: late arrivals are reported a day later, every file is written once."""

import csv
from datetime import date
from pathlib import Path

from examples.aviation.day_files import land_day_files

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
ROWS = [
    "2013,1,2,600,600,0,800,800,0,UA,3,N3,EWR,IAH,120,1400,6,0,2013-01-02T11:00:00Z",
    "2013,1,1,2300,2300,0,130,100,30,UA,2,N2,EWR,ORD,150,719,23,0,2013-01-02T04:00:00Z",
    "2013,1,1,517,515,2,830,819,11,UA,1,N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,3,NA,600,NA,NA,800,NA,UA,4,N4,EWR,IAH,NA,1400,6,0,2013-01-03T11:00:00Z",
]


def landed(tmp_path: Path) -> Path:
    (tmp_path / "flights").mkdir()
    (tmp_path / "flights/flights.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    return tmp_path


def reported(folder: Path, day: str) -> list[tuple[str, str]]:
    with (folder / "flight_reports" / f"{day}.csv").open(newline="") as lines:
        return [(row["flight"], row["arr_time"]) for row in csv.DictReader(lines)]


def test_a_flight_that_lands_after_midnight_is_reported_again_with_its_arrival(tmp_path):
    assert land_day_files(landed(tmp_path)) == 3
    assert reported(tmp_path, "2013-01-01") == [("2", "NA"), ("1", "830")]
    assert reported(tmp_path, "2013-01-02") == [("2", "130"), ("3", "800")]
    assert reported(tmp_path, "2013-01-03") == [("4", "NA")]


def test_days_land_one_after_the_other_and_are_never_changed(tmp_path):
    folder = landed(tmp_path)
    assert land_day_files(folder, until=date(2013, 1, 1)) == 1
    first = (folder / "flight_reports/2013-01-01.csv").stat().st_mtime_ns
    assert land_day_files(folder) == 2
    assert land_day_files(folder) == 0
    assert (folder / "flight_reports/2013-01-01.csv").stat().st_mtime_ns == first
