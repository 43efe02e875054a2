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

from delta_pipelines.system.process_identity import mark_of

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

    Of such a module the whole folder counts that it is imported from, with the packages in it: a
    function that runs on rows may import others only there, in a process of Spark's.

    Args:
        modules: Loaded modules; by default all of this process.
    """
    loaded = list(sys.modules.values()) if modules is None else modules
    roots, packages = set(), set()
    for module in loaded:
        names = _names(module)
        root = _root(str(module.__file__), names) if names else None
        if root is not None:
            roots.add(root)
            packages.add(names[0])
    digest, changed = hashlib.sha256(), []
    for root in sorted(roots):
        for file in sorted(_files(root, packages)):
            found = file.stat()
            content = _content(file, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
            digest.update(f"{file.relative_to(root)} {content}\n".encode())
            if max(found.st_ctime_ns, found.st_mtime_ns) > _began():
                changed.append(file)
    return AuthorCode(digest.hexdigest()[:16], tuple(changed))


@lru_cache(maxsize=1)
def library_versions() -> str:
    """Hash the versions of Python and of everything installed, as they are when first asked for.

    A library that is upgraded under a running process counts from the next process on.
    """
    installed = {f"{one.metadata['Name']} {one.version}" for one in metadata.distributions()}
    return hashlib.sha256("\n".join((sys.version, *sorted(installed))).encode()).hexdigest()[:16]


def _names(module: object) -> list[str]:
    """The parts of a module's name; empty for one that is not the author's."""
    # A module may be anything, and may answer to any name.
    about = vars(module) if isinstance(module, ModuleType) else {}
    name, file = about.get("__name__"), about.get("__file__")
    if not isinstance(name, str) or not isinstance(file, str):
        return []
    names = name.split(".")
    return names if names[0] not in _NOT_THE_AUTHORS and _is_the_authors(file) else []


def _root(file: str, names: list[str]) -> Path | None:
    """The folder that a module was imported from, or the archive."""
    place = Path(file).absolute()
    if not place.is_file():
        return next((parent for parent in place.parents if parent.is_file()), None)
    root = place.parent
    for name in reversed(names if place.stem == "__init__" else names[:-1]):
        root = root.parent if root.name == name else root
    return root


@lru_cache(maxsize=4096)
def _is_the_authors(file: str) -> bool:
    path = Path(file).absolute()
    standard = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    return not (_INSTALLED & set(path.parts) or standard & set(path.parents))


def _files(root: Path, packages: set[str]) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in root.iterdir():
        if path.suffix in _CODE and path.is_file():
            yield path
        elif _is_package(path, packages):
            for inner in path.rglob("*"):
                if inner.suffix in _CODE and _is_the_authors(str(inner)) and inner.is_file():
                    yield inner


def _is_package(folder: Path, loaded: set[str]) -> bool:
    """True for a folder of code; one of a namespace has none of its own, and is loaded."""
    if folder.name in _NOT_THE_AUTHORS or folder.name.startswith("."):
        return False
    return folder.name in loaded or any(folder.glob("*.py"))


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
