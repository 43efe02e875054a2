"""Hashes of the code that Python functions may run on rows: the author's files and libraries.

Needed only for datasets that declare `deterministic=True` and run Python on their rows.
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

from delta_pipelines.system.process_identity import identity_of

NOT_THE_AUTHORS = frozenset(
    {*sys.stdlib_module_names, "delta", "delta_pipelines", "py4j", "pyspark"} - {"__main__"}
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_CODE = frozenset({".py", ".so", ".pyd"})
_LOADED_AT = time.time_ns()


@dataclass(frozen=True)
class AuthorCode:
    """The author's own source files.

    Args:
        digest: Hash of their content.
        changed: Files that changed on disk after this process started: this process may have
            loaded the old text, and Spark's Python workers the new one.
    """

    digest: str
    changed: tuple[Path, ...] = ()


def author_code(modules: Iterable[ModuleType] | None = None) -> AuthorCode:
    """Hash the author's code: modules that are not from Python, Spark, a library or this package.

    The hash covers the whole folder that such a module was imported from, with its packages: a
    function that runs on rows may import further modules later, in a Python worker of Spark.

    Args:
        modules: Loaded modules; by default all modules of this process.
    """
    loaded = list(sys.modules.values()) if modules is None else modules
    roots, packages = set(), set()
    for module in loaded:
        names = _names(module)
        root = import_root(str(module.__file__), names) if names else None
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
    """Hash the versions of Python and of all installed libraries at the first call.

    An upgrade of a library during the process counts from the next process on.
    """
    installed = {f"{dist.metadata['Name']} {dist.version}" for dist in metadata.distributions()}
    return hashlib.sha256("\n".join((sys.version, *sorted(installed))).encode()).hexdigest()[:16]


def _names(module: object) -> list[str]:
    """The parts of a module's name; empty unless the module is the author's."""
    # `sys.modules` may contain any object, and its attributes may have any type.
    about = vars(module) if isinstance(module, ModuleType) else {}
    name, file = about.get("__name__"), about.get("__file__")
    if not isinstance(name, str) or not isinstance(file, str):
        return []
    names = name.split(".")
    return names if names[0] not in NOT_THE_AUTHORS and is_the_authors(file) else []


def import_root(file: str, names: list[str]) -> Path | None:
    """The folder or archive that a module was imported from."""
    path = Path(file).absolute()
    if not path.is_file():
        return next((parent for parent in path.parents if parent.is_file()), None)
    root = path.parent
    for name in reversed(names if path.stem == "__init__" else names[:-1]):
        root = root.parent if root.name == name else root
    return root


@lru_cache(maxsize=4096)
def is_the_authors(file: str) -> bool:
    """False for files of Python itself and of installed libraries."""
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
                if inner.suffix in _CODE and is_the_authors(str(inner)) and inner.is_file():
                    yield inner


def _is_package(folder: Path, loaded: set[str]) -> bool:
    """True for a folder with code, and for a loaded namespace package, which has no file itself."""
    if folder.name in NOT_THE_AUTHORS or folder.name.startswith("."):
        return False
    return folder.name in loaded or any(folder.glob("*.py"))


@lru_cache(maxsize=10_000)
def _content(file: Path, *_changed: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def _began() -> int:
    """When this process started (if unknown: when it loaded this module), in nanoseconds.

    A forked process loaded its modules before it started.
    """
    ticks = identity_of(os.getpid()).started
    if ticks is None:
        return _LOADED_AT
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return min(_LOADED_AT, time.time_ns() - int(age * 1e9))
