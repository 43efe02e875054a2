"""What the whole suite shares: one Spark session, started by the first test that needs it."""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delta_pipelines_tests.support.shares import Share, left_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FOLDERS = ("spark", "dagster")
_FORKED = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop's local files run `chmod` for each new file and `readlink` for each renamed one, eighteen
programs a commit; so Java starts every one by itself, and not by a program of its own."""
_SECOND_COMPILER_LATER = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Four times Java's own numbers, where a session on few cores has thirty times them: this one lives
for most of an hour. Tests keep both cores busy, and by those the second compiler takes
a quarter of them for methods that are warm, not hot."""
_YOUNG = "-Xms2g -Xmn1g"
"""A gigabyte for new objects from the start, where Java begins with an eighth of that and collects
for a twentieth of the suite's CPU time."""
SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "delta_pipelines_tests",
    # In Spark's own 1 GiB the tables of a thousand tests left a fifth of the time to the collector.
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.ui.explainMode": "simple",
    # Delta keeps the logs of 10,000 tables for an hour, a megabyte each; no test reads another's.
    "spark.databricks.delta.delta.log.cacheSize": "64",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Both compilers, as users have them: over files of minutes the second one earns its time (the
    # walk of 500 steps 339 s instead of 403 s, the own executors 318 s instead of 346 s, side by
    # side); a JVM of seconds gains from the first alone.
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC {_YOUNG} {_SECOND_COMPILER_LATER} {_FORKED}"
    ),
}
"""Tiny data runs about twice as fast without code generation and with few partitions."""
PROCESS_SETTINGS = {
    **SPARK_SETTINGS,
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {_FORKED}",
}
"""For a process of its own, which lives for seconds: there the second compiler earns nothing."""
WITHOUT_CHECKSUMS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""The suite's session writes no checksum beside every file, which saves a tenth of its time.
Processes of their own write them, as users' do: some are killed between the two."""

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The whole suite, for which `.ci/run` has no time."""
    parser.addoption(
        "--all",
        action="store_true",
        help="the long products of tests as a whole, not the share that belongs to the commit",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark and order the Spark tests; leave out soak tests and the variations of other shares.

    xdist hands out the files in this order: Spark tests first, and of those the largest files
    first. The quick tests come last, so that the workers end together.
    """
    here = Path(__file__).parent
    size = cache(lambda path: path.stat().st_size)
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).parts[0] in SPARK_FOLDERS:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, -size(item.path)))
    others = []
    if "soak" not in config.getoption("markexpr"):
        others += [item for item in items if "soak" in item.keywords]
    rest = [item for item in items if item not in others]
    others += left_out(rest, share_of(config))
    dropped = set(others)
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=others)


def share_of(config: pytest.Config) -> Share:
    return Share() if config.getoption("all") else Share.of_commit(Path(__file__).parent)


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> Share:
    """What this run takes of a long product."""
    return share_of(request.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests counted: `record_property("proved", text)`, also under xdist."""
    for report in terminalreporter.getreports("passed"):
        for key, told in report.user_properties:
            if key == "proved" and report.when == "call":
                terminalreporter.write_line(f"proved: {told}")


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the suite's tables and catalog."""
    # Paths with a space have their own bugs: files are named in escaped form here and there.
    return tmp_path_factory.mktemp("my warehouse")


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Settings of the suite's session, for what is to share it."""
    return SPARK_SETTINGS | WITHOUT_CHECKSUMS


@pytest.fixture(scope="session")
def process_settings() -> dict[str, str]:
    """Settings for tests that start Spark in a process of their own."""
    return dict(PROCESS_SETTINGS)


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> "Iterator[SparkSession]":
    """The suite's session, with a persistent catalog in `warehouse`."""
    from delta_pipelines.session import get_session, stop_session

    yield get_session(warehouse, config=SPARK_SETTINGS | WITHOUT_CHECKSUMS)
    stop_session()


@pytest.fixture
def quick_vacuum(spark: "SparkSession") -> Iterator[None]:
    """Let VACUUM list folders in two tasks; Spark's default of 10,000 takes half a minute."""
    spark.conf.set(LISTING_TASKS, "2")
    yield
    spark.conf.unset(LISTING_TASKS)


@pytest.fixture
def schema(spark: "SparkSession", request: pytest.FixtureRequest) -> str:
    """A schema of the test's own; it goes with the suite's warehouse."""
    stem = re.sub(r"\W+", "_", request.node.name).strip("_").lower()[:40]
    name = f"{stem}_{next(_numbers)}"
    spark.sql(f"CREATE SCHEMA `{name}`")
    return name
