"""The jar of our log store for S3, compiled once per machine by the compiler that Spark ships.

Delta 4.4 has no log store for several writers on S3 without a further service: the one for a single
driver (`S3SingleDriverLogStore`) overwrites the commit of another process.
"""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from platformdirs import user_cache_path

from delta_pipelines.errors import SessionError
from delta_pipelines.session.java import java_executable
from delta_pipelines.session.trusted_files import why_not_trusted
from delta_pipelines.system.s3_jars import spark_folder

LOG_STORE = "delta_pipelines.S3LogStore"
"""Name of the class."""

_SOURCE = Path(__file__).with_name("S3LogStore.java")
_BASE = """
package io.delta.storage;
import java.io.IOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
public abstract class HadoopFileSystemLogStore {
    public HadoopFileSystemLogStore(Configuration settings) {}
    public abstract void write(Path p, Iterator a, Boolean o, Configuration c) throws IOException;
    public abstract Boolean isPartialWriteVisible(Path p, Configuration c) throws IOException;
}
"""
"""Delta's class for the compiler: Delta's own jar is not there before the first session."""
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_NEEDED_JARS = ("janino", "commons-compiler", "hadoop-client-api")
_PATIENCE = 120.0


def log_store_jar() -> Path:
    """Return the jar of the log store; compile it if this user's cache folder does not have it.

    Raises:
        SessionError: The class was not compiled.

    Example:
        >>> log_store_jar().suffix
        '.jar'
    """
    source = _SOURCE.read_text(encoding="utf-8")
    key = hashlib.sha256(f"{source}{_BASE}".encode()).hexdigest()[:16]
    jar = _folder() / f"s3-log-store-{key}.jar"
    if zipfile.is_zipfile(jar) and why_not_trusted(jar) is None:
        return jar
    with tempfile.TemporaryDirectory() as folder:
        compiled = _compiled(source, Path(folder))
        draft = jar.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(draft, "w") as archive:
            archive.writestr(f"{LOG_STORE.replace('.', '/')}.class", compiled)
        draft.chmod(0o600)
        draft.replace(jar)
    return jar


def _folder() -> Path:
    """The user's cache folder; a new folder for a user without one, or if others may write it."""
    try:
        folder = user_cache_path("delta_pipelines", appauthor=False, ensure_exists=True)
        if os.access(folder, os.W_OK) and why_not_trusted(folder) is None:
            return folder
    except (RuntimeError, OSError):
        pass
    return Path(tempfile.mkdtemp(prefix="delta_pipelines-"))


def _compiled(source: str, folder: Path) -> bytes:
    jars = [jar for name in _NEEDED_JARS for jar in (spark_folder() / "jars").glob(f"{name}-*.jar")]
    base = folder / "sources" / "io/delta/storage/HadoopFileSystemLogStore.java"
    own = folder / "sources" / f"{LOG_STORE.replace('.', '/')}.java"
    for path, text in ((base, _BASE), (own, source)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    class_path = os.pathsep.join(map(str, jars))
    command = [java_executable(os.environ) or "java", "-cp", class_path, _COMPILER]
    command += ["-classpath", class_path, "-encoding", "UTF-8", "-d", str(folder), str(base)]
    try:
        ended = subprocess.run(
            [*command, str(own)], capture_output=True, text=True, timeout=_PATIENCE
        )
        return (folder / f"{LOG_STORE.replace('.', '/')}.class").read_bytes()
    except FileNotFoundError as error:
        output = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[:20])
        raise SessionError(
            "Our log store for S3 was not compiled, and without it two processes could overwrite "
            "each other's commits. If only one process writes, set `spark.delta.logStore.s3a.impl` "
            f"to `io.delta.storage.S3SingleDriverLogStore`. The compiler said:\n{output}"
        ) from error
