r"""Streams of files: which files they find, and how each file is read only once.

Spark disables patterns when it reads the files of a micro-batch. But for every path with a
character of `{}[]*?\` it then adds the whole list of files again (Spark 4.2,
`checkAndGlobPathIfNecessary`).
"""

from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, entries, items
from delta_pipelines.delta.jvm.signatures import Member, check_signatures
from delta_pipelines.errors import DatasetError

_STREAMING = "org.apache.spark.sql.execution.streaming.runtime"
_SOURCE = f"{_STREAMING}.FileStreamSource"
_EXECUTION = f"{_STREAMING}.StreamingExecutionRelation"
_DATA_SOURCE = "org.apache.spark.sql.execution.datasources.DataSource"
_STREAMS = ("StreamingRelation", "StreamingRelationV2")
_PATTERN = frozenset("{}[]*?\\")
"""Source of the rule: Spark's `SparkHadoopUtil.isGlobPath`."""
_MEMBERS = (
    Member(_DATA_SOURCE, "createSource", ("java.lang.String",)),
    Member(_SOURCE, "seenFiles"),
    Member(_SOURCE, "partitionColumns", is_field=True),
    Member(_SOURCE, "optionsForInnerDataSource", is_field=True),
    Member(
        _EXECUTION,
        "<init>",
        (
            "org.apache.spark.sql.connector.read.streaming.SparkDataStream",
            "scala.collection.immutable.Seq",
            "scala.Option",
            "org.apache.spark.sql.catalyst.streaming.StreamingSourceIdentifyingName",
            "org.apache.spark.sql.SparkSession",
        ),
    ),
)


def streams_of(rows: DataFrame) -> list[JavaObject]:
    """Return the streams of a query; the index is the number in the checkpoint.

    Source of the rule: Spark's `MicroBatchExecution` numbers them in the order of the plan, and
    equal streams once; declared inputs are among them.

    Args:
        rows: The analysed query, a classic DataFrame.
    """
    found: list[JavaObject] = []
    for leaf in items(rows._jdf.queryExecution().analyzed().collectLeaves()):
        if class_name(leaf) in _STREAMS and leaf not in found:
            found.append(leaf)
    return found


def reads_files(node: JavaObject) -> bool:
    """Say whether a stream of `streams_of` reads a folder of files."""
    is_stream = class_name(node) == "StreamingRelation"
    return is_stream and str(node.sourceName()).startswith("FileSource[")


def path_of(node: JavaObject) -> str:
    """Return the folder, or the pattern, of a stream of files, as written in the query."""
    given = entries(node.dataSource().options())
    return next((str(value) for key, value in given.items() if key.lower() == "path"), "")


def listed_files(spark: SparkSession, node: JavaObject) -> list[str]:
    """List the files that a stream would find now, as Spark's `FileStreamSource` does."""
    jvm = Jvm(spark)
    options = node.dataSource().options()
    roots = _matches(jvm, jvm.root.org.apache.hadoop.fs.Path(path_of(node)))
    index_class = jvm.root.org.apache.spark.sql.execution.datasources.InMemoryFileIndex
    no_cache = getattr(index_class, "$lessinit$greater$default$5")()
    no_partitions = jvm.some(jvm.root.org.apache.spark.sql.types.StructType())
    index = index_class(jvm.session, roots, options, no_partitions, no_cache, jvm.none, jvm.none)
    return jvm.texts(index.inputFiles())


def check_paths(rows: DataFrame, dataset: str) -> None:
    """Reject a stream of a folder that Spark takes for a pattern which does not match it.

    Args:
        rows: The analysed query, a classic DataFrame.

    Raises:
        DatasetError: Spark would read nothing, or other folders, without an error.
    """
    jvm = Jvm(rows.sparkSession)
    for node in filter(reads_files, streams_of(rows)):
        path = path_of(node)
        folder = jvm.root.org.apache.hadoop.fs.Path(path) if _PATTERN & set(path) else None
        while folder is not None:
            if _is_taken_for_a_pattern(jvm, folder):
                escaped = "".join(f"\\{c}" if c in _PATTERN else c for c in folder.getName())
                raise DatasetError(
                    f"the query reads a stream from {path}, but Spark interprets the name of the "
                    f"existing folder {folder.getName()} as a pattern. Write a backslash before "
                    f"each of the characters {{}}[]*?\\ that is part of a name: {escaped}",
                    dataset=dataset,
                )
            folder = folder.getParent()


def _is_taken_for_a_pattern(jvm: Jvm, folder: JavaObject) -> bool:
    if _PATTERN.isdisjoint(folder.getName()):
        return False
    system = folder.getFileSystem(jvm.session.sessionState().newHadoopConf())
    path = system.makeQualified(folder)
    return system.exists(folder) and not _matches(jvm, folder).contains(path)


def each_file_once(rows: DataFrame, checkpoint: str, dataset: str) -> DataFrame:
    """Return the same query, which reads every file of its streams once, whatever its name.

    Spark makes the source of a stream when the query starts. Here it is made before, with the
    option `recursiveFileLookup` for reading the files of a micro-batch: with it Spark's list has
    every path once. How the source lists its folder does not change.

    Args:
        rows: The analysed query, a classic DataFrame.

    Raises:
        DatasetError: A file has such a name, but the query also reads another kind of stream, for
            which Spark must make the sources.
    """
    spark, streams = rows.sparkSession, streams_of(rows)
    of_files = [node for node in streams if reads_files(node)]
    if not of_files:
        return rows
    if len(of_files) < len(streams) or check_signatures(spark, _MEMBERS) is not None:
        _refuse_odd_names(spark, of_files, dataset)
        return rows
    sources = [
        _source(spark, node, f"{checkpoint}/sources/{number}")
        for number, node in enumerate(streams)
    ]
    plan = rows._jdf.queryExecution().analyzed()
    return Jvm(spark).rows_of(_with_sources(Jvm(spark), plan, streams, sources))


def _matches(jvm: Jvm, path: JavaObject) -> JavaObject:
    system = path.getFileSystem(jvm.session.sessionState().newHadoopConf())
    hadoop = jvm.root.org.apache.spark.deploy.SparkHadoopUtil.get()
    return hadoop.globPathIfNecessary(system, system.makeQualified(path))


def _source(spark: SparkSession, node: JavaObject, log: str) -> JavaObject:
    jvm = Jvm(spark)
    source = node.dataSource().createSource(log)
    partitions = jvm.private_field(_SOURCE, "partitionColumns").get(source)
    # Partition columns come from the names of folders; for an empty folder they are found with its
    # first files. Recursive reading ignores them. Spark reads a partition's files once anyway.
    has_files = source.seenFiles().size() > 0 or bool(listed_files(spark, node))
    if partitions.isEmpty() and has_files:
        options = jvm.private_field(_SOURCE, "optionsForInnerDataSource")
        options.set(source, options.get(source).updated("recursiveFileLookup", "true"))
    return source


def _with_sources(
    jvm: Jvm, plan: JavaObject, streams: list[JavaObject], sources: list[JavaObject]
) -> JavaObject:
    children = items(plan.children())
    if children:
        replaced = [_with_sources(jvm, child, streams, sources) for child in children]
        return plan.withNewChildren(jvm.sequence(replaced))
    if plan not in streams:
        return plan
    source = sources[streams.index(plan)]
    entry, name = plan.dataSource().catalogTable(), plan.sourceIdentifyingName()
    return jvm.type(_EXECUTION)(source, plan.output(), entry, name, jvm.session)


def _refuse_odd_names(spark: SparkSession, streams: list[JavaObject], dataset: str) -> None:
    for node in streams:
        odd = [path for path in map(unquote, listed_files(spark, node)) if _PATTERN & set(path)]
        if odd:
            raise DatasetError(
                f"Spark reads the files of a stream several times if a path has one of the "
                f"characters {{}}[]*?\\, such as {odd[0]}. Rename the file, or read its folder in "
                "a separate flow without other kinds of streams.",
                dataset=dataset,
            )
