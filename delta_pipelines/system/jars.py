"""The jars that a session needs, and whether Ivy has already downloaded them."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from delta_pipelines.errors import SessionError

DELTA_VERSION = "4.4.0"
SPARK_LINE = "4.2"
SCALA_VERSION = "2.13"
_LOCK = ".delta_pipelines.lock"
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class Jar:
    """A jar by its Maven coordinates.

    Example:
        >>> Jar("io.delta", "delta-storage", "4.4.0").coordinates
        'io.delta:delta-storage:4.4.0'
    """

    group: str
    module: str
    version: str

    @property
    def coordinates(self) -> str:
        """The jar as an entry of `spark.jars.packages`."""
        return f"{self.group}:{self.module}:{self.version}"

    @property
    def file_name(self) -> str:
        """The jar's file name in Ivy's `jars` folder."""
        return f"{self.group}_{self.module}-{self.version}.jar"


@dataclass(frozen=True)
class JarSet:
    """Jars that a session needs for one purpose, with the jars that they depend on.

    Args:
        roots: Jars to ask for; Ivy finds their dependencies. If the user brings the first one, the
            whole set is the user's.
        dependencies: The further jars that a session needs.
        excludes: Dependencies that it does not need, or that PySpark ships, as `group:module`.
    """

    roots: tuple[Jar, ...]
    dependencies: tuple[Jar, ...] = ()
    excludes: tuple[str, ...] = ()

    @property
    def jars(self) -> tuple[Jar, ...]:
        """All jars of the set."""
        return (*self.roots, *self.dependencies)

    def is_among(self, entries: Sequence[str]) -> bool:
        """Say whether the user's jars or packages have the first root, in any version."""
        return any(self.roots[0].module in entry for entry in entries)


DELTA = Jar("io.delta", f"delta-spark_{SPARK_LINE}_{SCALA_VERSION}", DELTA_VERSION)
DELTA_JARS = (
    DELTA,
    Jar("io.delta", "delta-storage", DELTA_VERSION),
    Jar("io.delta", "delta-kernel-api", DELTA_VERSION),
    Jar("io.delta", "delta-kernel-defaults", DELTA_VERSION),
)
"""All jars that a Delta session needs in addition to those of PySpark."""

SHIPPED_BY_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.locationtech.jts:jts-core",
    "org.roaringbitmap:RoaringBitmap",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""Dependencies of Delta that PySpark ships in its `jars` folder; PySpark's versions win anyway."""

UNUSED_BY_DELTA = (
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "commons-logging:commons-logging",
    "io.delta:delta-kernel-unitycatalog",
    "io.unitycatalog:unitycatalog-client",
    "io.unitycatalog:unitycatalog-hadoop",
    "javax.annotation:javax.annotation-api",
    "org.roaringbitmap:shims",
)
"""Dependencies of Delta that only Unity Catalog uses; other packages may need them."""


def default_ivy_home() -> Path:
    """Folder for downloaded jars in Spark 4.2 when `spark.jars.ivy` is not set.

    Raises:
        SessionError: The user has no home folder.
    """
    try:
        return Path.home() / ".ivy2.5.2"
    except RuntimeError as error:
        raise SessionError(
            "There is no folder for Delta's jars, because this user has no home folder: set HOME, "
            "or set `spark.jars.ivy` in the Spark settings to a folder."
        ) from error


def cached_jars(ivy_home: Path, sets: Sequence[JarSet] = ()) -> tuple[Path, ...] | None:
    """Find Delta's jars, and those of further sets, among the jars that Ivy has downloaded.

    Args:
        ivy_home: Ivy's folder, the value of `spark.jars.ivy`.
        sets: Further jars that are needed.

    Returns:
        The jars' paths; None when a jar is missing or incomplete.

    Example:
        >>> cached_jars(Path("no-such-folder")) is None
        True
    """
    needed = (*DELTA_JARS, *(jar for needed in sets for jar in needed.jars))
    paths = tuple(ivy_home / "jars" / jar.file_name for jar in needed)
    return paths if all(zipfile.is_zipfile(path) for path in paths) else None


def jar_settings(extra: Mapping[str, str], sets: Sequence[JarSet] = ()) -> dict[str, str]:
    """Decide how a session gets Delta's jars, in addition to the user's jars.

    Cached jars are passed as files, which avoids an Ivy resolution at each start. The exclusions
    of a first download also apply to the user's packages; so if there are any, only the jars that
    Spark ships are excluded.

    Args:
        extra: The user's settings; `spark.jars`, `spark.jars.packages`, `spark.jars.excludes`
            and `spark.jars.ivy` are read. Delta's jars among them stay unchanged.
        sets: Further jars that the session needs: the driver of its catalog's database, S3.

    Returns:
        Settings that replace the user's entries of the same names; empty when the user's settings
        already contain all jars.

    Example:
        >>> jar_settings({"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"})
        {}
    """
    jars = entries(extra.get("spark.jars"))
    packages = entries(extra.get("spark.jars.packages"))
    given = (*jars, *packages)
    sets = [needed for needed in sets if not needed.is_among(given)]
    also = [jar.coordinates for needed in sets for jar in needed.roots]
    left_out = [entry for needed in sets for entry in needed.excludes]
    excludes = [*entries(extra.get("spark.jars.excludes")), *left_out]
    if any(DELTA.module in entry for entry in given):
        added = {"spark.jars.packages": ",".join([*packages, *also])} if also else {}
        return added | ({"spark.jars.excludes": ",".join(excludes)} if left_out else {})
    ivy_home = Path(extra.get("spark.jars.ivy") or default_ivy_home()).expanduser().absolute()
    cached = cached_jars(ivy_home, sets)
    if cached is not None and "," not in str(ivy_home):
        return {"spark.jars": ",".join([*jars, *map(str, cached)])}
    excludes += SHIPPED_BY_SPARK
    if not packages:
        excludes += UNUSED_BY_DELTA
    return {
        "spark.jars.packages": ",".join([*packages, *also, DELTA.coordinates]),
        "spark.jars.excludes": ",".join(excludes),
        # Java's home folder may differ from Python's: Java does not read HOME.
        "spark.jars.ivy": str(ivy_home),
    }


@contextmanager
def download_lock(settings: Mapping[str, str]) -> Iterator[bool]:
    """Let one process at a time download our jars.

    Ivy does not lock its folder: a second process could read a file that is still incomplete.

    Args:
        settings: A session's complete settings.

    Yields:
        True when the process may have waited, so that the jars may be there by now.
    """
    packages = entries(settings.get("spark.jars.packages"))
    if DELTA.coordinates not in packages:
        yield False
        return
    folder = Path(settings.get("spark.jars.ivy") or default_ivy_home())
    with ExitStack() as locks:
        # If the folder is not writable or the lock times out, go on: Ivy reports the problem.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            locks.enter_context(FileLock(folder / _LOCK, timeout=_PATIENCE_SECONDS))
        yield True


def entries(text: str | None) -> list[str]:
    """Split a comma-separated setting of Spark.

    Example:
        >>> entries("a, b,,")
        ['a', 'b']
    """
    return [entry.strip() for entry in (text or "").split(",") if entry.strip()]
