"""Folders and small files under a storage root, local or remote, through Hadoop's file systems."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, is_classic

_LOCAL = re.compile(r"^file:/+")
MOST_BYTES = 16_000_000
"""Of one small file: a stream's offsets take kilobytes."""
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


@dataclass(frozen=True)
class Folder:
    """A folder.

    Args:
        name: Its last part.
        path: Where it is.
        modified_ms: When something was last added to or taken from it, milliseconds since 1970.
    """

    name: str
    path: str
    modified_ms: int


def folders_in(spark: SparkSession, path: str) -> list[Folder]:
    """List a folder's folders; none when it does not exist or the session is a Connect one.

    Args:
        spark: The session, whose file system settings apply.
        path: The folder.
    """
    if not is_classic(spark):
        return []
    hadoop_path, files = _opened(spark, path)
    if not files.exists(hadoop_path):
        return []
    return [
        Folder(
            str(status.getPath().getName()),
            str(status.getPath().toString()),
            int(status.getModificationTime()),
        )
        for status in files.listStatus(hadoop_path)
        if status.isDirectory()
    ]


def names_in(spark: SparkSession, path: str) -> list[str]:
    """The names of a folder's files and folders, in no order; none when it does not exist.

    Not one by one, which would be several round trips to the JVM for each: a checkpoint has as many
    files as there were batches.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The folder.
    """
    hadoop_path, files = _opened(spark, path)
    if not files.exists(hadoop_path):
        return []
    jvm = Jvm(spark)
    paths = jvm.static("org.apache.hadoop.fs.FileUtil", "stat2Paths")(files.listStatus(hadoop_path))
    return [one.rsplit("/", 1)[-1] for one in jvm.texts(paths)]


def read_text(spark: SparkSession, path: str) -> str:
    """A small file's text.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The file, of at most `MOST_BYTES`.

    Raises:
        ValueError: It is larger.
    """
    hadoop_path, files = _opened(spark, path)
    size = int(files.getFileStatus(hadoop_path).getLen())
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, and the most is {MOST_BYTES:,}.")
    return _text(files.open(hadoop_path))


def read_text_if_there(spark: SparkSession, path: str) -> str | None:
    """A small file's text; None when there is no such file.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The file.
    """
    hadoop_path, files = _opened(spark, path)
    # Asked first: PySpark takes 20 ms to translate the error that says there is none.
    return _text(files.open(hadoop_path)) if files.exists(hadoop_path) else None


def replace_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a small file in a checkpoint, or replace it, as Spark writes its own files there.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The file.
        text: What is to be in it.
    """
    jvm = Jvm(spark)
    hadoop_path = jvm.root.org.apache.hadoop.fs.Path(path)
    settings = jvm.session.sessionState().newHadoopConf()
    # A process that is killed in the middle leaves the file as it was.
    manager = jvm.static(_CHECKPOINT_FILES, "create")(hadoop_path, settings)
    stream = manager.createAtomic(hadoop_path, True)
    stream.write(text.encode())
    stream.close()


def read_texts(
    spark: SparkSession, folder: str, names: Iterable[str], most_bytes: int
) -> list[str] | None:
    """The texts of a folder's small files; None when they are larger than that together.

    Args:
        spark: A classic session, whose file system settings apply.
        folder: Where they are.
        names: Of the files.
        most_bytes: Of all together.
    """
    hadoop_path, files = _opened(spark, folder)
    path_class = Jvm(spark).root.org.apache.hadoop.fs.Path
    paths = [path_class(hadoop_path, name) for name in names]
    if sum(int(files.getFileStatus(path).getLen()) for path in paths) > most_bytes:
        return None
    return [_text(files.open(path)) for path in paths]


def _text(stream: JavaObject) -> str:
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def delete_below(spark: SparkSession, path: str, root: str) -> None:
    """Delete a folder and what is in it; nothing happens when it is gone already.

    The only deletion of folders, so it does not trust its callers with the path.

    Args:
        spark: A session; nothing happens over Spark Connect.
        path: The folder.
        root: The folder that it has to be in, at any depth.

    Raises:
        ValueError: It is not in there.
    """
    if not is_below(path, root):
        raise ValueError(f"{path!r} is not a folder in {root!r}; nothing was deleted.")
    if is_classic(spark):
        hadoop_path, files = _opened(spark, path)
        files.delete(hadoop_path, True)


def is_below(path: str, root: str) -> bool:
    """True when a path is in a folder, and not that folder. Pure.

    Neither is looked up, so that a path with `..`, `.` or an empty part is not in any folder. A
    local path may have the scheme `file`, as Hadoop lists it.

    Args:
        path: A path or address.
        root: A path or address.

    Example:
        >>> is_below("file:/w/_c/t/1", "/w/_c"), is_below("/w/_c/../t", "/w/_c")
        (True, False)
    """
    path, root = (_LOCAL.sub("/", one.rstrip("/")) for one in (path, root))
    inside = path.removeprefix(f"{root}/")
    parts = inside.split("/")
    return bool(root) and inside != path and not {"", ".", ".."} & set(parts)


def _opened(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    jvm = Jvm(spark)
    hadoop_path = jvm.root.org.apache.hadoop.fs.Path(path)
    settings = jvm.session.sessionState().newHadoopConf()
    return hadoop_path, hadoop_path.getFileSystem(settings)
