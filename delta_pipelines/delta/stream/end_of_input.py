"""Find out whether streams have read all their input, without starting them.

Starting a stream that finds nothing takes about a second: most of the time of a rerun without
changes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES, is_not_there
from delta_pipelines.delta.query.relations import qualified, read_by
from delta_pipelines.delta.storage.folders import names_in, read_texts
from delta_pipelines.delta.stream.checkpoint_progress import read_progress
from delta_pipelines.delta.stream.file_streams import listed_files, path_of, reads_files, streams_of
from delta_pipelines.model.stored_values import file_number, json_object

MOST_LOG_BYTES = 8 * 1024 * 1024
"""A longer log (about 50,000 files) is left to Spark, which reads it in the JVM."""
_COMPACT = ".compact"


def are_at_their_end(
    spark: SparkSession, rows: DataFrame, checkpoint: str, tables: Mapping[str, int]
) -> bool:
    """Say whether no stream of a query has new input; starts no Spark job.

    The version of a Delta table shows it, and for a folder of files Spark's own log of the files
    that it has read. For any other source only Spark can find out, so the answer is False.

    Args:
        spark: A classic session.
        rows: The analysed query.
        tables: Delta table id -> latest version, for tables that are declared as streams. Tables
            that the query opens itself are not among them.

    Example:
        >>> are_at_their_end(spark, rows, checkpoint, {state.table_id: state.version})
        True
    """
    progress = read_progress(spark, checkpoint)
    files = progress.files_beside(tables) if progress is not None else None
    if files is None:
        return False
    streams = [node for relation, node in read_by(rows).items() if relation.is_streaming]
    folders = [node for node in streams if reads_files(node)]
    if len(folders) != len(files) or len(streams) != len(files) + len(tables):
        return False
    return _unread(spark, folders, files, checkpoint) == []


@dataclass(frozen=True)
class StreamedFolder:
    """A folder of files that a query reads as a stream.

    Args:
        number: Number of the stream in the query's checkpoint.
        location: The folder, or a pattern of folders, with its file system.
    """

    number: int
    location: str


def stream_folders(rows: DataFrame) -> list[StreamedFolder]:
    """Return the folders of files that a query reads as streams.

    Args:
        rows: The analysed query, a classic DataFrame.

    Example:
        >>> stream_folders(spark.readStream.text("/landing/*"))
        [StreamedFolder(number=0, location='file:/landing/*')]
    """
    return [
        StreamedFolder(number, _location(node))
        for number, node in enumerate(streams_of(rows))
        if reads_files(node)
    ]


def takes_all_for_new(
    spark: SparkSession, rows: DataFrame, checkpoint: str, numbers: Collection[int]
) -> bool:
    """Say whether a stream has read files, but none of those in one of its folders.

    Also True if that is unknown. False for a stream that has read nothing yet: all its files are
    new.

    Args:
        spark: A classic session.
        rows: The analysed query.
        numbers: Numbers of the folders.
    """
    nodes = streams_of(rows)
    try:
        progress = read_progress(spark, checkpoint)
        files = progress.files if progress is not None else {}
        return any(
            _knows_none(spark, nodes[number], f"{checkpoint}/sources/{number}", files[number])
            for number in numbers
            if files.get(number, -1) >= 0
        )
    except (*SPARK_FAILURES, ValueError, KeyError):
        return True  # The folder or the log cannot be read.


def _knows_none(spark: SparkSession, node: JavaObject, log: str, batch: int) -> bool:
    logged = _logged(spark, log, batch)
    return logged is None or logged.isdisjoint(listed_files(spark, node))


def left_out_files(
    spark: SparkSession, rows: DataFrame, checkpoint: str, before_ms: float
) -> list[str]:
    """Return files that existed before a stream ran and that it did not read.

    Source of the rule: Spark's `FileStreamSource` ignores files that are older than the newest file
    that it has read by more than the option `maxFileAge` (a week).

    Args:
        spark: A classic session.
        rows: The analysed query; its stream has ended.
        before_ms: Start of the stream, in milliseconds since 1970.
    """
    try:
        return _left_out(spark, rows, checkpoint, before_ms)
    except SPARK_FAILURES:
        return []  # Only a warning depends on it; the batches are committed.


def _left_out(spark: SparkSession, rows: DataFrame, checkpoint: str, before_ms: float) -> list[str]:
    progress = read_progress(spark, checkpoint)
    files = progress.files if progress is not None else {}
    folders = [node for node in streams_of(rows) if reads_files(node)]
    if not files or len(folders) != len(files):
        return []
    unread = _unread(spark, folders, files, checkpoint) or []
    return [path for path in unread if _modified_ms(spark, path) < before_ms]


def _unread(
    spark: SparkSession, folders: list[JavaObject], files: Mapping[int, int], checkpoint: str
) -> list[str] | None:
    """Return the files that are not in the log of any source; None if unknown."""
    seen: set[str] = set()
    for source, batch in files.items():
        logged = _logged(spark, f"{checkpoint}/sources/{source}", batch)
        if logged is None:
            return None
        seen |= logged
    try:
        listed = [path for node in folders for path in listed_files(spark, node)]
    except SPARK_FAILURES:
        return None  # Spark reports what is wrong with the folder.
    return [path for path in listed if path not in seen]


def _modified_ms(spark: SparkSession, path: str) -> float:
    """Modification time of a file; infinite if it is gone, such as a temporary upload."""
    jvm = Jvm(spark)
    hadoop_path = jvm.root.org.apache.hadoop.fs.Path(jvm.root.java.net.URI(path))
    system = hadoop_path.getFileSystem(jvm.session.sessionState().newHadoopConf())
    try:
        return float(system.getFileStatus(hadoop_path).getModificationTime())
    except SPARK_FAILURES as error:
        if is_not_there(error):
            return inf
        raise


def _location(node: JavaObject) -> str:
    path = path_of(node)
    try:
        return qualified(node.dataSource(), path)
    except SPARK_FAILURES:
        return path  # Spark reports what is wrong when the stream starts.


def _logged(spark: SparkSession, folder: str, batch: int) -> set[str] | None:
    """Return the files that a source has read; None if its log is at another batch or too long.

    Source of the rule: Spark's `CompactibleFileStreamLog`: every tenth file repeats all before it.
    """
    # A killed process leaves a temporary file, which is not an entry: `.2.<uuid>.tmp`.
    stems = {name: name.removesuffix(_COMPACT) for name in names_in(spark, folder)}
    numbers = {name: file_number(stem) for name, stem in stems.items()}
    found = {number: name for name, number in numbers.items() if number is not None}
    compact = max((n for n, name in found.items() if name.endswith(_COMPACT)), default=0)
    if max(found, default=None) != batch:
        return None
    logs = [name for number, name in found.items() if number >= compact]
    texts = read_texts(spark, folder, logs, MOST_LOG_BYTES)
    if texts is None:
        return None
    lines = [json_object(line) for text in texts for line in text.splitlines()[1:]]
    paths = [None if line is None else line.get("path") for line in lines]
    # A log in another format does not show what the source has read.
    return None if None in paths else set(map(str, paths))
