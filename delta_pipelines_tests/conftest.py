"""Fixtures of all tests: one Spark session, started by the first test that needs it."""

import itertools
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delta_pipelines_tests.support.shares import Share, counts, left_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FOLDERS = ("spark", "dagster")
WHOLE_PRODUCT_SECONDS = 7200
"""Limit for a test that has all cases of its product, with `--all`, and names no limit itself."""
_FORKED = "-Djdk.lang.Process.launchMechanism=VFORK"
"""For its local files Hadoop runs `chmod` or `readlink`, eighteen times a commit. With VFORK, Java
starts these programs directly and not through a helper program."""
_SECOND_COMPILER_LATER = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Four times Java's defaults; with the defaults the second compiler takes a quarter of the CPU time
for methods that are only warm. A session on few cores has thirty times the defaults, but the one of
the tests lives for many minutes."""
_YOUNG = "-Xms2g -Xmn1g"
"""A gigabyte for new objects from the start. Java starts with an eighth of that, and then garbage
collection takes a twentieth of the CPU time."""
SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "delta_pipelines_tests",
    # With Spark's default of 1 GiB, garbage collection takes a fifth of the time.
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.ui.explainMode": "simple",
    # By default Delta caches the logs of 10,000 tables for an hour, a megabyte each.
    "spark.databricks.delta.delta.log.cacheSize": "64",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Both compilers, as for users: in a JVM that runs for minutes, the second one saves more time
    # than it takes (a walk of 500 steps takes 339 s instead of 403 s).
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC {_YOUNG} {_SECOND_COMPILER_LATER} {_FORKED}"
    ),
}
"""Without code generation and with few partitions, tiny data is processed twice as fast."""
PROCESS_SETTINGS = {
    **SPARK_SETTINGS,
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {_FORKED}",
}
"""For processes that tests start: they live for seconds, too short for the second compiler."""
WITHOUT_CHECKSUMS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""The session of the tests writes no checksum files, which saves a tenth of its time. Other
processes write them, as for users: some are killed between a file and its checksum."""

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`, which runs also the variations that `.ci/run` has no time for."""
    parser.addoption(
        "--all",
        action="store_true",
        help="run all variations of the tests, not the share that belongs to the commit",
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
        is_whole = config.getoption("all") and counts(item)
        if is_whole and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(WHOLE_PRODUCT_SECONDS))
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
    """The share of the variations that this run takes."""
    return share_of(request.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts of tests, `record_property("proved", text)`, also with xdist."""
    for report in terminalreporter.getreports("passed"):
        for key, value in report.user_properties:
            if key == "proved" and report.when == "call":
                terminalreporter.write_line(f"proved: {value}")


@pytest.fixture(autouse=True)
def _forget_modules_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the modules that a test has loaded from its own folder.

    Code of a refresh may use any loaded module. So a module that stays while its file goes away
    would make every later refresh of this process run again.
    """
    before = set(sys.modules)
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and file.startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tables and the catalog."""
    # A path with a space finds places that forget to escape or unescape it.
    return tmp_path_factory.mktemp("my warehouse")


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Settings of the session, for code that gets the same session."""
    return SPARK_SETTINGS | WITHOUT_CHECKSUMS


@pytest.fixture(scope="session")
def process_settings() -> dict[str, str]:
    """Settings for tests that start Spark in a process of their own."""
    return dict(PROCESS_SETTINGS)


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> "Iterator[SparkSession]":
    """The session of the tests, with a persistent catalog in `warehouse`."""
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
    """An empty schema of the test; it is deleted with the warehouse."""
    stem = re.sub(r"\W+", "_", request.node.name).strip("_").lower()[:40]
    name = f"{stem}_{next(_numbers)}"
    spark.sql(f"CREATE SCHEMA `{name}`")
    return name
