"""Create a file only if it does not exist, through Hadoop's file systems.

Leases and Delta's commits depend on it: of two processes that create the same file, one must fail.
"""

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages

_CONDITION = "fs.option.create.conditional.overwrite"
_ATTEMPTS = 5
_WHOLE = (1 << 31) - 1


def hadoop_path(spark: SparkSession, address: str) -> JavaObject:
    """Return an address as Hadoop's `Path`."""
    return Packages(spark._jvm).org.apache.hadoop.fs.Path(address)


def file_system(spark: SparkSession, path: JavaObject) -> JavaObject:
    """Return the file system of a `Path`, with the session's settings."""
    return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def is_on_s3(path: JavaObject) -> bool:
    """Say whether a `Path` is on S3."""
    return str(path.toUri().getScheme()) == "s3a"


def content_of(files: JavaObject, path: JavaObject, most_bytes: int) -> bytes | None:
    """Read the start of a file; None if it does not exist."""
    try:
        return read_file(files, path, most_bytes)
    except Py4JJavaError as error:
        if is_missing(error):
            return None
        raise


def read_file(files: JavaObject, path: JavaObject, most_bytes: int = _WHOLE) -> bytes:
    """Read a file, or its start.

    A file that another process replaces between two requests is read again: S3's client refuses to
    read on in a file that is not the one that it opened.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _read(files.open(path), most_bytes)
        except Py4JJavaError as error:
            if not _is_replaced(error):
                raise
    return _read(files.open(path), most_bytes)


def _read(stream: JavaObject, most_bytes: int) -> bytes:
    try:
        return bytes(stream.readNBytes(most_bytes))
    finally:
        stream.close()


def create_file(files: JavaObject, path: JavaObject, content: bytes) -> bool:
    """Create a file with its content; False if another process created it.

    On S3, only a conditional request creates a file exclusively, and Hadoop 3.5 sends one only on
    demand. The S3 client repeats a request without an answer. If the first one succeeded, the
    second one is refused, so a refusal is believed only if the file has other content.
    """
    if not is_on_s3(path):
        return _created(files, path, content)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            builder = files.createFile(path).overwrite(False).must(_CONDITION, "true")
            write(builder.recursive().build(), content)
        except Py4JJavaError as error:
            found = content_of(files, path, len(content) + 1)
            if found is not None:
                return found == content
            # S3 also refuses while another request for this file is under way, which may fail.
            if not _is_replaced(error) or attempt == _ATTEMPTS:
                raise
        else:
            return True
    return False


def _created(files: JavaObject, path: JavaObject, content: bytes) -> bool:
    try:
        write(files.create(path, False), content)
    except Py4JJavaError:
        if files.exists(path):
            return False
        raise
    return True


def write(stream: JavaObject, content: bytes) -> None:
    """Write a whole file and close it."""
    try:
        stream.write(content)
    finally:
        stream.close()


def is_missing(error: Py4JJavaError) -> bool:
    """Say whether an error means that a file or folder does not exist."""
    return _name(error) == "java.io.FileNotFoundException"


def _is_replaced(error: Py4JJavaError) -> bool:
    """Say whether a request was refused because the file is not the expected one."""
    text = str(error.java_exception.toString())
    return "RemoteFileChangedException" in text or "Status Code: 412" in text


def _name(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())
