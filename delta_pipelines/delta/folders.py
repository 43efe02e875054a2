"""Folders and small files under a storage root, local or remote, through Hadoop's file systems."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm import JavaObject, Jvm, is_classic


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
    place, files = _opened(spark, path)
    if not files.exists(place):
        return []
    return [
        Folder(
            str(status.getPath().getName()),
            str(status.getPath().toString()),
            int(status.getModificationTime()),
        )
        for status in files.listStatus(place)
        if status.isDirectory()
    ]


def file_sizes(spark: SparkSession, path: str) -> dict[str, int]:
    """A folder's files, in no order: name -> bytes; none when it does not exist.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The folder.
    """
    place, files = _opened(spark, path)
    if not files.exists(place):
        return {}
    listed = files.listStatus(place)
    return {str(s.getPath().getName()): int(s.getLen()) for s in listed if s.isFile()}


def read_text(spark: SparkSession, path: str) -> str:
    """A small file's text.

    Args:
        spark: A classic session, whose file system settings apply.
        path: The file.
    """
    place, files = _opened(spark, path)
    stream = files.open(place)
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def delete_folder(spark: SparkSession, path: str) -> None:
    """Delete a folder and what is in it; nothing happens when it is gone already."""
    if is_classic(spark):
        place, files = _opened(spark, path)
        files.delete(place, True)


def _opened(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject]:
    jvm = Jvm(spark)
    place = jvm.root.org.apache.hadoop.fs.Path(path)
    settings = jvm.session.sessionState().newHadoopConf()
    return place, place.getFileSystem(settings)
