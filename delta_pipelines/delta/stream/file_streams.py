r"""Streams over files: what they find in their folders, and how each file is read once.

Spark turns patterns off when it reads the files of a micro-batch, and then takes the whole list of
files once more for every path with one of `{}[]*?\` (Spark 4.2, `checkAndGlobPathIfNecessary`).
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
    """The streams that a query reads, each at the number by which its checkpoint knows it.

    Source of the rule: Spark's `MicroBatchExecution` numbers them in the order of the plan, and
    equal ones once; inputs that are declared are some of them.

    Args:
        rows: The analysed query, a classic DataFrame.
    """
    found: list[JavaObject] = []
    for leaf in items(rows._jdf.queryExecution().analyzed().collectLeaves()):
        if class_name(leaf) in _STREAMS and leaf not in found:
            found.append(leaf)
    return found


def reads_files(node: JavaObject) -> bool:
    """True for a stream of `streams_of` that reads a folder of files."""
    is_stream = class_name(node) == "StreamingRelation"
    return is_stream and str(node.sourceName()).startswith("FileSource[")


def path_of(node: JavaObject) -> str:
    """The folder, or the pattern, that a stream of files reads, as the query names it."""
    given = entries(node.dataSource().options())
    return next((str(value) for key, value in given.items() if key.lower() == "path"), "")


def listed_files(spark: SparkSession, node: JavaObject) -> list[str]:
    """The files that a stream would find now, as it lists them (Spark's `FileStreamSource`)."""
    jvm = Jvm(spark)
    options = node.dataSource().options()
    roots = _matches(jvm, jvm.root.org.apache.hadoop.fs.Path(path_of(node)))
    index_class = jvm.root.org.apache.spark.sql.execution.datasources.InMemoryFileIndex
    no_cache = getattr(index_class, "$lessinit$greater$default$5")()
    no_partitions = jvm.some(jvm.root.org.apache.spark.sql.types.StructType())
    index = index_class(jvm.session, roots, options, no_partitions, no_cache, jvm.none, jvm.none)
    return jvm.texts(index.inputFiles())


def check_paths(rows: DataFrame, dataset: str) -> None:
    """Refuse a stream over a folder that Spark takes for a pattern which does not match it.

    Args:
        rows: The analysed query, a classic DataFrame.
        dataset: Name for messages.

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
                    f"the query streams {path}, and Spark takes the existing folder "
                    f"{folder.getName()} for a pattern of other names. Write a backslash before "
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
    """The same query, which reads every file of its streams once, whatever the name is.

    Spark makes the source of a stream when the query starts. Here it is made before, and gets the
    option `recursiveFileLookup` for reading the files of a micro-batch, with which Spark's list of
    files has every path once. How the source lists its folder does not change.

    Args:
        rows: The analysed query, a classic DataFrame.
        checkpoint: The folder of its checkpoint.
        dataset: Name for messages.

    Raises:
        DatasetError: A file has such a name, and the query reads another kind of stream too, for
            which Spark has to make the sources.
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
    # Partition columns come from the folders' names, and without them from an empty folder's first
    # files; recursive reading ignores those. Spark takes a partition's files once anyway.
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
                f"Spark reads the files of a stream several times where a path has one of the "
                f"characters {{}}[]*?\\, such as {odd[0]}. Rename it, or read it in a flow of its "
                "own that reads no other kind of stream.",
                dataset=dataset,
            )
