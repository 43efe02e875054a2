"""The version of files: a hash of their paths, sizes and modification times."""

import hashlib
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, is_a

_READ_AT = re.compile(r"\baccess_time=\d+;?")


def listing(jvm: Jvm, index: JavaObject) -> str | None:
    """Hash the files that an analysed query found in its folders; starts no Spark job.

    Local files are read again here, because Hadoop starts a shell for the owner of each file. A
    file that changes after the query was analysed counts as changed in the next run.

    Args:
        index: Spark's `FileIndex` of the query.

    Returns:
        16 hexadecimal digits; None if the index has no listing, or a file no longer exists.
    """
    if not is_a(index, "PartitioningAwareFileIndex"):
        return None
    paths = jvm.texts(index.inputFiles())
    if all(path.startswith("file:") for path in paths):
        try:
            lines = [_local(path) for path in paths]
        except OSError:
            return None
    else:
        listed = str(index.allFiles().mkString("\n"))
        lines = _READ_AT.sub("", listed).split("\n")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _local(path: str) -> str:
    found = Path(unquote(urlsplit(path).path)).stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"
