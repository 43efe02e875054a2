"""The code that Python functions may run besides what Spark ships: the author's files, libraries.

Asked only for datasets that declare `deterministic=True` and run Python on their rows.
"""

import hashlib
import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from delta_pipelines.this_process import mark_of

_NOT_THE_AUTHORS = frozenset(
    {*sys.stdlib_module_names, "delta", "delta_pipelines", "py4j", "pyspark"} - {"__main__"}
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_CODE = frozenset({".py", ".so", ".pyd"})
_LOADED_AT = time.time_ns()


@dataclass(frozen=True)
class AuthorCode:
    """The author's own files of code.

    Args:
        digest: Hash of their content.
        changed: Those that changed on disk since this process began: it may have loaded the older
            text, and Spark's Python workers the newer one.
    """

    digest: str
    changed: tuple[Path, ...] = ()


def author_code(modules: Iterable[ModuleType] | None = None) -> AuthorCode:
    """Hash the code of every loaded module that is not Python's own, installed, Spark's or ours.

    Files beside such a module and in packages beside it count too: a function that runs on rows may
    import them only there, in a process of Spark's.

    Args:
        modules: Loaded modules; by default all of this process.
    """
    loaded = list(sys.modules.values()) if modules is None else modules
    roots = sorted({root for module in loaded for root in _roots(module)})
    told, changed = hashlib.sha256(), []
    for root in roots:
        for file in sorted(_files(root)):
            found = file.stat()
            content = _content(file, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
            told.update(f"{file.relative_to(root)} {content}\n".encode())
            if max(found.st_ctime_ns, found.st_mtime_ns) > _began():
                changed.append(file)
    return AuthorCode(told.hexdigest()[:16], tuple(changed))


@lru_cache(maxsize=1)
def library_versions() -> str:
    """Hash the versions of Python and of everything installed, as they are when first asked for.

    A library that is upgraded under a running process counts from the next process on.
    """
    installed = {f"{one.metadata['Name']} {one.version}" for one in metadata.distributions()}
    return hashlib.sha256("\n".join((sys.version, *sorted(installed))).encode()).hexdigest()[:16]


def _roots(module: ModuleType) -> Iterator[Path]:
    """The folder that a module of the author's was imported from, or the archive."""
    # A module may be anything, and may answer to any name.
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    top = str(getattr(module, "__name__", "")).partition(".")[0]
    if not isinstance(file, str) or top in _NOT_THE_AUTHORS or not _is_the_authors(file):
        return
    place = Path(file).absolute()
    if place.is_file():
        root = place.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        yield root
    else:
        yield from (parent for parent in place.parents if parent.is_file())


@lru_cache(maxsize=4096)
def _is_the_authors(file: str) -> bool:
    path = Path(file).absolute()
    standard = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    return not (_INSTALLED & set(path.parts) or standard & set(path.parents))


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in root.iterdir():
        if path.suffix in _CODE and path.is_file():
            yield path
        elif path.name not in _NOT_THE_AUTHORS and (path / "__init__.py").is_file():
            inner = (file for file in path.rglob("*") if file.suffix in _CODE)
            yield from filter(Path.is_file, inner)


@lru_cache(maxsize=10_000)
def _content(file: Path, *_changed: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def _began() -> int:
    """When this process began, or loaded this module if that is not known, in nanoseconds.

    A process that was forked has loaded its modules before it began.
    """
    ticks = mark_of(os.getpid()).started
    if ticks is None:
        return _LOADED_AT
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return min(_LOADED_AT, time.time_ns() - int(age * 1e9))
