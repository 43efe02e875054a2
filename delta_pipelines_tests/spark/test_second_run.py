"""A second run of the same pipeline, by another process or of the demo, writes nothing."""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from delta_pipelines_tests.support.pipelines import jobs_started, run_well, version_of
from examples.aviation import landing
from examples.aviation.day_files import land_day_files
from examples.aviation.pipeline import aviation

PROCESS = """
import json, sys
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
import delta_pipelines as dp
from delta_pipelines.session import get_session

warehouse, settings, landed = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
spark = get_session(warehouse, config=settings)
p = dp.Pipeline("p", schema="s")
WIDTHS = {"b", "a", "c"}
double = F.udf(lambda n: n * 2 if str(n) not in WIDTHS else n, LongType())

@p.materialized_view
def raw(spark):
    return spark.read.schema("id INT, v STRING").csv(landed, header=True)

p.temporary_view("ranked", '''
    WITH a AS (SELECT id, v, row_number() OVER (PARTITION BY v ORDER BY id) AS n FROM raw),
         b AS (SELECT * FROM a)
    SELECT a.*, x FROM a JOIN b USING (id) LATERAL VIEW explode(array(1, 2)) AS x
    WHERE a.id IN (SELECT max(id) FROM b GROUP BY v) AND a.id < (SELECT sum(id) + 9 FROM raw)
''')
p.view("shown", "SELECT id, v FROM raw WHERE v IS NOT NULL")

@p.materialized_view(deterministic=True)
def zoo(ranked, shown):
    mapped = F.transform(F.array("id"), lambda x: x + 1).alias("mapped")
    pivot = shown.groupBy("v").pivot("id", [1, 2]).count().select(F.col("v").alias("pv"))
    cube = shown.cube("v").count().select(F.col("count").alias("c"))
    own = ranked.select("id", mapped, double("n").alias("d"))
    return own.crossJoin(F.broadcast(pivot)).crossJoin(cube).unionByName(own, True)

p.upsert("merged", "SELECT id, max(v) AS v FROM shown GROUP BY id", keys=["id"])
p.materialized_view("typed", "SELECT * FROM VALUES (1, 'a#1'), (2, 'b') AS t(id, v)")

before = int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
results = p.run(spark).results
jobs = int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()) - before
rows = {name: [r.status, r.version, r.reason] for name, r in results.items()}
print("RESULT " + json.dumps({"jobs": jobs, "results": rows}))
"""


def test_a_second_process_commits_nothing_and_starts_no_job(tmp_path, process_settings):
    script = tmp_path / "second_process.py"
    script.write_text(PROCESS)
    time.sleep(0.1)  # older than the process that runs it, by the clock of processes
    (tmp_path / "landed").mkdir()
    (tmp_path / "landed" / "a b.csv").write_text("id,v\n1,a\n2,b\n")
    arguments = [tmp_path / "warehouse", json.dumps(process_settings), tmp_path / "landed"]

    def process(seed: str):
        done = subprocess.run(
            [sys.executable, script, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**_environment(), "PYTHONHASHSEED": seed},
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        assert lines, done.stderr[-2000:]
        return json.loads(lines[0].removeprefix("RESULT "))

    first, second = process("1"), process("2")
    assert {status for status, _, _ in first["results"].values()} == {"completed"}
    assert {status for status, _, _ in second["results"].values()} == {"unchanged"}, second
    assert second["jobs"] == 0
    assert {version for _, version, _ in second["results"].values()} == {0, None}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}


AIRPORTS = ["icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz"]
FLIGHTS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01 10:00:00\n"
    "2013,2,1,NA,515,NA,NA,819,NA,UA,1546,N14229,EWR,ORD,NA,719,5,15,2013-02-01 10:00:00\n"
)
WEATHER = (
    "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,"
    "visib,time_hour\nEWR,2013,1,1,5,39,26,59,270,10.3,NA,0,1012,10,2013-01-01 10:00:00\n"
)
PLANES = (
    "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\n"
    "N14228,1999,Fixed wing,BOEING,737-824,2,149,NA,Turbo-fan\n"
)


def land(folder: Path, release: str, names: dict[str, str]) -> None:
    """Land one airport release and, with the first one, the plain files."""
    where = folder / "airports" / f"published_on={release}"
    where.mkdir(parents=True)
    with (where / "airports.csv").open("w", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(AIRPORTS)
        for icao, name in names.items():
            table.writerow([icao, icao[1:], name, "City", "", "US", 10, 1.5, 2.5, "UTC"])
    (folder / "flights").mkdir(exist_ok=True)
    for file, text in {
        "flights/flights.csv": FLIGHTS,
        "weather.csv": WEATHER,
        "planes.csv": PLANES,
        "airlines.csv": "carrier,name\nUA,United\n",
    }.items():
        if not (folder / file).exists():
            (folder / file).write_text(text)
    land_day_files(folder)


def test_a_second_run_of_the_demo_makes_no_commit_and_no_job(spark, tmp_path, monkeypatch):
    for function in (landing.landed_releases, landing.landed_file, landing.landed_reports):
        monkeypatch.setattr(function, "__defaults__", (tmp_path,))
    land(tmp_path, "2022-01-01", {"KIAH": "Houston", "KORD": "Chicago"})
    land(tmp_path, "2022-06-01", {"KIAH": "Houston", "KORD": "O'Hare"})
    tables = [table.name for table in aviation.graph().tables]

    def versions():
        return {name: version_of(spark, f"aviation.{name}") for name in tables}

    first = run_well(aviation, spark).results["delays_by_day"].partitions
    assert len(first.refreshed) == 365  # every day of 2013
    before = versions()
    with jobs_started(spark) as jobs:
        results = run_well(aviation, spark).results
    assert {r.status for r in results.values()} == {"unchanged"}
    assert jobs.count == 0
    assert versions() == before

    land(tmp_path, "2022-12-01", {"KIAH": "George Bush", "KORD": "O'Hare"})
    results = run_well(aviation, spark).results
    written = {name for name, r in results.items() if r.status == "completed"}
    assert written == {"airports_snapshot", "airports", "flight_delays_by_airport"}
    spark.sql("DROP SCHEMA aviation CASCADE")
