"""Ten small materialized views, five of which read another: whole cold processes, ours and SDP's.

Spark's declarative pipelines (`spark-pipelines run`) get the same queries, with their tables in
Spark's default format and in Delta. A process starts, makes ten tables in a new warehouse, ends.
Two more ways tell the session's part from the engine's: the same Delta tables by Spark alone, in
our session and its catalog. An engine may undercut them, by fewer jobs for a commit.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.timing import Contest, alternate
from delta_pipelines.session.class_archive import archive_path, write_archive
from delta_pipelines.session.config import spark_config

VIEWS = 10
OURS = """
import delta_pipelines as dp

views = dp.Pipeline("views", schema="bench")
for n in range(5):
    views.materialized_view(
        f"base{n}", f"SELECT id, id * {n + 1} AS amount, id % 7 AS kind FROM range(1000)"
    )
    views.materialized_view(
        f"sum{n}", f"SELECT kind, sum(amount) AS total FROM base{n} GROUP BY kind"
    )
if __name__ == "__main__":
    settings = {"spark.ui.enabled": "false", **JAVA}
    result = views.run(dp.get_session("warehouse", config=settings))
    assert len(result.results) == 10 and result.success
"""
BARE = """
from concurrent.futures import ThreadPoolExecutor

import delta_pipelines as dp


def write(name, query):
    spark.sql(query).write.format("delta").saveAsTable(f"bench.{name}")


def base(n):
    query = f"SELECT id, id * {n + 1} AS amount, id % 7 AS kind FROM range(1000)"
    write(f"base{n}", query)


def total(n):
    write(f"sum{n}", f"SELECT kind, sum(amount) AS total FROM bench.base{n} GROUP BY kind")


if __name__ == "__main__":
    settings = {"spark.ui.enabled": "false", **JAVA}
    spark = dp.get_session("warehouse", config=settings)
    spark.sql("CREATE SCHEMA bench")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(base, range(5)))
        list(pool.map(total, range(5)))
"""
THEIRS = """
from pyspark import pipelines as sdp
from pyspark.sql import SparkSession

spark = SparkSession.active()


def base(n):
    @sdp.materialized_view(name=f"base{n}"FORMAT)
    def query():
        return spark.sql(f"SELECT id, id * {n + 1} AS amount, id % 7 AS kind FROM range(1000)")


def total(n):
    @sdp.materialized_view(name=f"sum{n}"FORMAT)
    def query():
        return spark.sql(f"SELECT kind, sum(amount) AS total FROM base{n} GROUP BY kind")


for n in range(5):
    base(n)
    total(n)
"""


PARTITIONS = "spark.sql.shuffle.partitions"
"""Neither side is to win by their number, but where it says so: users leave the other side its 200.
With Delta it keeps them always: with as few as ours it failed in every run ("remove the schema when
creating the table", "does not support reads").
"""
FIRST_COMPILER = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""docs/deployment.md offers it to short runs; the other side's Java keeps both compilers."""


def run(rounds: int = 5) -> list[Contest]:
    """Time them all, alternately; ours with the class archive of `delta-pipelines warm-up`.

    Args:
        rounds: Rounds that count.
    """
    if find_spec("pandas") is None:
        raise SystemExit("small_views runs Spark's own pipelines: pip install '.[benchmarks]'")
    if not archive_path().is_file():
        write_archive()
    ways: dict[str, Callable[[int], object]] = {
        "delta_pipelines": lambda _: _script(OURS, {}),
        "delta_pipelines (first compiler alone)": lambda _: _script(OURS, FIRST_COMPILER),
        "no engine: saveAsTable in four threads": lambda _: _script(BARE, {}),
        "no engine (first compiler alone)": lambda _: _script(BARE, FIRST_COMPILER),
        "spark-pipelines (default format)": lambda _: _theirs(delta=False),
        "spark-pipelines (default format and settings)": lambda _: _theirs(
            delta=False, untouched=True
        ),
        "spark-pipelines (Delta)": lambda _: _theirs(delta=True),
    }
    ours, theirs = list(ways)[:4], list(ways)[4:]
    seconds = alternate(ways, rounds=rounds, warm_up=1)
    return [
        Contest(
            "10 small views, cold process",
            {**{way: seconds[way] for way in ours}, name: seconds[name]},
            name,
            dict.fromkeys(ours[:2], 0.7),
        )
        for name in theirs
    ]


def _script(text: str, java: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "views.py").write_text(text.replace("JAVA", repr(java)))
        _checked([sys.executable, "views.py"], Path(folder))


def _theirs(*, delta: bool, untouched: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "views.py").write_text(THEIRS.replace("FORMAT", ', format="delta"' * delta))
        jars = ""
        ours = spark_config(f"{folder}/warehouse")
        settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.ui.enabled": "false"}
        if not delta and not untouched:
            settings[PARTITIONS] = ours[PARTITIONS]
        if delta:
            wanted = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
            settings |= {key: ours[key] for key in wanted}
            # The threads that run its flows do not see what `spark.jars` adds.
            jars = ours["spark.jars"].replace(",", os.pathsep)
        (root / "spark-pipeline.yml").write_text(
            textwrap.dedent(f"""\
            name: views
            storage: file://{folder}/storage
            database: default
            libraries:
              - glob:
                  include: views.py
            """)
        )
        # On the command line: what stands in the project's file is set for each flow, too late for
        # the warehouse and the jars.
        command = [str(Path(sys.executable).parent / "spark-pipelines"), "run"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        _checked(command, root, jars)


def _checked(command: list[str], folder: Path, jars: str = "") -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_DIST_CLASSPATH"] = jars
    # Where it is set, every process of either side compiles all that it imports, pandas too.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    package = str(Path(__file__).resolve().parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(
        [package, *filter(None, [environment.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    made = list((folder / "warehouse").rglob("base4"))
    if done.returncode or not made:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
