"""What runs leave in a session and in a warehouse, on a disk or on S3."""

from collections.abc import Collection
from pathlib import PurePosixPath

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.storage.folders import read_text
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.update.lease_record import read_record
from delta_pipelines_tests.support.pipelines import tables_of


def of_the_session(spark: SparkSession, schema: str) -> set[str]:
    """Streams, cached rows and temporary views: other tests of the session leave some too."""
    found = {f"stream {query.name}" for query in spark.streams.active}
    cached = spark.sparkContext._jsc.getPersistentRDDs().items()
    found |= {
        f"cached rows {number} {rdd.name()}"
        for number, rdd in cached
        if not str(rdd.name()).startswith("Delta Table State")
    }
    views = spark.sql(f"SHOW VIEWS IN {schema}").collect()
    return found | {f"temporary view {row['viewName']}" for row in views if row["isTemporary"]}


VACUUMED = {
    "full_view",
    "partition_rows",
    "merge_deletes",
    "merge_plain",
    "merge_drift",
    "stream_append",
}
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def left_behind(
    spark: SparkSession, place: str, schema: str, before: set[str], of_dropped: Collection[str]
) -> list[str]:
    """What neither the catalog nor a table names, after every dataset was run once more.

    A dropped table leaves its checkpoints (docs/streaming.md); those do not count.

    Args:
        place: The warehouse, a path or an address.
        before: What the session had before, of `of_the_session`.
        of_dropped: Names of checkpoints of dropped tables.
    """
    found = sorted(of_the_session(spark, schema) - before)
    tables = tables_of(spark, schema)
    beside = f"{place}/{schema}.db"
    folders = {named(path) for path in matching(spark, f"{beside}/*")} - {"_delta_pipelines"}
    found += [f"folder {name} without a table" for name in folders - set(tables)]
    leases: dict[str, list[str]] = {}
    for path in matching(spark, f"{beside}/_delta_pipelines/leases/*/*"):
        leases.setdefault(named(path, 1), []).append(path)
    assert leases, "they are beside the tables"
    for name, files in leases.items():
        record = read_record(read_text(spark, files[0])) if len(files) == 1 else None
        if record is None or not record.released:
            found.append(f"lease {name}: {files}")
    ids: dict[str, str | None] = {}
    for path in matching(spark, f"{place}/_delta_pipelines/*/_checkpoints/{schema}.*/*/*"):
        table, flow = named(path, 2), named(path, 1)
        if table not in ids:
            state = load_table(spark, Identifier(None, schema, table.partition(".")[2]))
            ids |= {
                f"{table} {name}": checkpoint.id
                for name, checkpoint in (checkpoints_of(state.properties) if state else {}).items()
            }
        if named(path) not in {ids.get(f"{table} {flow}"), *of_dropped}:
            found.append(f"checkpoint {path}")
    with setting(spark, RETENTION_CHECK, "false"):
        for name in sorted(VACUUMED & set(tables)):
            spark.sql(f"VACUUM {schema}.{name} RETAIN 0 HOURS").collect()
            kept = set(map(named, spark.table(f"{schema}.{name}").inputFiles()))
            there = below(spark, f"{beside}/{name}", "part-*.parquet")
            found += [f"file {path} of {name}" for path in there if named(path) not in kept]
            vectors = below(spark, f"{beside}/{name}", "deletion_vector_*.bin")
            found += [f"{vectors} of {name}"] if len(vectors) > len(kept) else []
    return found


def below(spark: SparkSession, folder: str, pattern: str) -> list[str]:
    """The files of a table that match a pattern, in its folder and in those of its partitions."""
    return sorted(matching(spark, f"{folder}/{pattern}") + matching(spark, f"{folder}/*/{pattern}"))


def matching(spark: SparkSession, pattern: str) -> list[str]:
    """The files and folders that match a pattern, through Hadoop's file systems."""
    jvm = Jvm(spark)
    path = jvm.root.org.apache.hadoop.fs.Path(pattern)
    files = path.getFileSystem(jvm.session.sessionState().newHadoopConf())
    found = jvm.static("org.apache.hadoop.fs.FileUtil", "stat2Paths")(files.globStatus(path))
    return jvm.texts(found) if found is not None else []


def named(path: str, up: int = 0) -> str:
    """A part of a path, counted from its end; 0 is the last one."""
    return PurePosixPath(path).parts[-1 - up]
