"""Folders and small files under a storage root, local or remote, through Hadoop's file systems."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.storage.exclusive_files import read_file

_LOCAL = re.compile(r"^file:/+")
MOST_BYTES = 16_000_000
"""Limit for one small file; the offsets of a stream take kilobytes."""
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


@dataclass(frozen=True)
class Folder:
    """A folder.

    Args:
        name: Last part of its path.
        path: Its path.
    """

    name: str
    path: str


def folders_in(spark: SparkSession, path: str) -> list[Folder]:
    """List the folders in a folder; empty if it does not exist."""
    hadoop_path, files = _opened(spark, path)
    if not files.exists(hadoop_path):
        return []
    return [
        Folder(str(status.getPath().getName()), str(status.getPath().toString()))
        for status in files.listStatus(hadoop_path)
        if status.isDirectory()
    ]


def names_in(spark: SparkSession, path: str) -> list[str]:
    """The names of a folder's files and folders, in no order; none when it does not exist.

    Not one by one, which would be several round trips to the JVM for each: a checkpoint has as many
    files as there were batches.

    Args:
        spark: A classic session, whose file system settings apply.
    """
    hadoop_path, files = _opened(spark, path)
    if not files.exists(hadoop_path):
        return []
    jvm = Jvm(spark)
    # For a list of folders Hadoop returns an array of `FileStatus`, the exact type that py4j needs.
    # For one folder, a store may return an array of a class of its own.
    folders = jvm.array("org.apache.hadoop.fs.Path", [hadoop_path])
    paths = jvm.static("org.apache.hadoop.fs.FileUtil", "stat2Paths")(files.listStatus(folders))
    return [name.rsplit("/", 1)[-1] for name in jvm.texts(paths)]


def read_text(spark: SparkSession, path: str) -> str:
    """Read a small file.

    Args:
        spark: A classic session, with its file system settings.
        path: The file, of at most `MOST_BYTES`.

    Raises:
        ValueError: The file is larger.
    """
    hadoop_path, files = _opened(spark, path)
    size = int(files.getFileStatus(hadoop_path).getLen())
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, but at most {MOST_BYTES:,} are read.")
    return _text(files, hadoop_path)


def read_text_if_there(spark: SparkSession, path: str) -> str | None:
    """Read a small file; None if it does not exist."""
    hadoop_path, files = _opened(spark, path)
    # Existence is asked first: PySpark takes 20 ms to translate the error for a missing file.
    return _text(files, hadoop_path) if files.exists(hadoop_path) else None


def replace_text(spark: SparkSession, path: str, text: str) -> None:
    """Write or replace a small file in a checkpoint, atomically, as Spark writes its own files."""
    jvm = Jvm(spark)
    hadoop_path = jvm.root.org.apache.hadoop.fs.Path(path)
    settings = jvm.session.sessionState().newHadoopConf()
    # If the process is killed, the old file stays.
    manager = jvm.static(_CHECKPOINT_FILES, "create")(hadoop_path, settings)
    stream = manager.createAtomic(hadoop_path, True)
    stream.write(text.encode())
    stream.close()


def read_texts(
    spark: SparkSession, folder: str, names: Iterable[str], most_bytes: int
) -> list[str] | None:
    """Read small files of a folder; None if they are larger than `most_bytes` together."""
    hadoop_path, files = _opened(spark, folder)
    path_class = Jvm(spark).root.org.apache.hadoop.fs.Path
    paths = [path_class(hadoop_path, name) for name in names]
    if sum(int(files.getFileStatus(path).getLen()) for path in paths) > most_bytes:
        return None
    return [_text(files, path) for path in paths]


def _text(files: JavaObject, path: JavaObject) -> str:
    return read_file(files, path).decode("utf-8")


def delete_below(spark: SparkSession, path: str, root: str) -> None:
    """Delete a folder with its contents; does nothing if it does not exist.

    This is the only code that deletes folders, so it does not trust the path from its callers.

    Args:
        root: The folder that must contain it, at any depth.

    Raises:
        ValueError: `path` is not in `root`.
    """
    if not is_below(path, root):
        raise ValueError(f"{path!r} is not a folder in {root!r}; nothing was deleted.")
    hadoop_path, files = _opened(spark, path)
    files.delete(hadoop_path, True)


def is_below(path: str, root: str) -> bool:
    """Say whether a path is in a folder (and is not the folder itself). Pure.

    Paths are compared as text, so a path with `..`, `.` or an empty part is never in a folder. A
    local path may have the scheme `file`, as Hadoop lists it.

    Example:
        >>> is_below("file:/w/_c/t/1", "/w/_c"), is_below("/w/_c/../t", "/w/_c")
        (True, False)
    """
    path, root = (_LOCAL.sub("/", text.rstrip("/")) for text in (path, root))
    inside = path.removeprefix(f"{root}/")
    parts = inside.split("/")
    return bool(root) and inside != path and not {"", ".", ".."} & set(parts)


def _opened(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    jvm = Jvm(spark)
    hadoop_path = jvm.root.org.apache.hadoop.fs.Path(path)
    settings = jvm.session.sessionState().newHadoopConf()
    return hadoop_path, hadoop_path.getFileSystem(settings)
