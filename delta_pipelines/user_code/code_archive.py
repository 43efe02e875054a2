"""One zip of the Python files that a pipeline's functions may import on another machine."""

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from delta_pipelines.errors import SessionError
from delta_pipelines.model.setting_names import SEND_CODE
from delta_pipelines.user_code.author_code import NOT_THE_AUTHORS, import_root, is_the_authors

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of the files before compression."""
MOST_FILES = 10_000

_OWN = "delta_pipelines"
_OWN_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class CodeArchive:
    """Files for the path of another machine's Python.

    Args:
        files: Name in the archive -> content.
    """

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """A hash of the files, also of their names."""
        found = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            found.update(f"{name} {len(content)}\n".encode())
            found.update(content)
        return found.hexdigest()[:16]

    def zipped(self) -> bytes:
        """The archive as a zip."""
        # Python finds a package without `__init__.py` only by the entry of its folder.
        folders = {
            f"{above}/": b"" for name in self.files for above in list(Path(name).parents)[:-1]
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted({**folders, **self.files}.items()):
                archive.writestr(name, content)
        return buffer.getvalue()


@dataclass(frozen=True)
class CodeFolder:
    """A folder that modules are imported from.

    Args:
        root: The folder that is on Python's path.
        package: The only package or module to take from it; None for all of them.
    """

    root: Path
    package: str | None = None


def code_folders(
    declaring: Collection[ModuleType], loaded: Iterable[object] = ()
) -> frozenset[CodeFolder]:
    """The folders that a pipeline's modules were imported from.

    Of folders without a module that declares datasets, only packages with a loaded module count.

    Args:
        declaring: Modules that declare datasets. A module without a file, as in a notebook, has no
            folder.
        loaded: All loaded modules. Python itself and installed libraries do not count.

    Example:
        >>> import calendar
        >>> code_folders([calendar])
        frozenset()
    """
    found = {
        CodeFolder(root, None if is_the_authors(file) else names[0])
        for file, root, names in map(_origin, declaring)
        if root is not None
    }
    whole = {folder.root for folder in found if folder.package is None}
    for module in loaded:
        file, root, names = _origin(module)
        if root is not None and root not in whole and is_the_authors(file):
            found.add(CodeFolder(root, names[0]))
    return frozenset(found)


def _origin(module: object) -> tuple[str, Path | None, list[str]]:
    """The file of a module, the folder that it was imported from (None for none), and its name."""
    # `sys.modules` may contain any object, and its attributes may have any type.
    about = vars(module) if isinstance(module, ModuleType) else {}
    file, name = about.get("__file__"), about.get("__name__")
    if not isinstance(file, str) or not file.endswith(".py") or not isinstance(name, str):
        return "", None, []
    if name == "__main__":
        name = getattr(about.get("__spec__"), "name", None) or Path(file).stem
    names = name.split(".")
    root = None if names[0] in NOT_THE_AUTHORS else import_root(file, names)
    return file, root if root is not None and root.is_dir() else None, names


def code_archive(folders: Iterable[CodeFolder]) -> CodeArchive:
    """Read the Python files of folders, and of this package.

    Of a folder it takes the modules and the packages that Python would import from it. It leaves
    out data, hidden folders, virtual environments, installed libraries, and top-level modules with
    the name of one of Python's own.

    Raises:
        SessionError: The files are too many, or too large.
    """
    packed: dict[str, Path] = {}
    size = 0
    for folder in sorted(folders, key=str):
        for name, file in _files(folder):
            if name in packed:
                continue
            size += file.stat().st_size
            if len(packed) >= MOST_FILES or size > MOST_BYTES:
                raise SessionError(
                    f"The folder {folder.root} has too much Python code to send to the executors "
                    f"of a cluster (more than {MOST_BYTES >> 20} MiB, or {MOST_FILES:,} files): "
                    "move the pipeline's file into a folder of its own. Or install its modules "
                    f"where the executors run, and set {SEND_CODE}=false."
                )
            packed[name] = file
    contents = {name: file.read_bytes() for name, file in packed.items()}
    return CodeArchive({**contents, **_own_files()})


def _files(folder: CodeFolder) -> Iterator[tuple[str, Path]]:
    """Name in the archive and file of each module of a folder."""
    for path in _listed(folder.root):
        name = path.name.partition(".")[0]
        if name != (folder.package or name) or name in NOT_THE_AUTHORS:
            continue
        if _is_module(path):
            yield path.name, path
        elif _may_be_package(path) and _has_code(path):
            yield from _of_package(path, path.name, frozenset())


def _of_package(folder: Path, name: str, above: frozenset[str]) -> Iterator[tuple[str, Path]]:
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder above it
        return
    for path in _listed(folder):
        inner = f"{name}/{path.name}"
        if _is_module(path):
            yield inner, path
        elif _may_be_package(path):
            yield from _of_package(path, inner, above | {real})


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # a folder that this user may not read
        return []


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" and path.is_file() and os.access(path, os.R_OK)


def _may_be_package(path: Path) -> bool:
    """False for hidden folders, `site-packages`, `shop.db`, `day=2024-01-01` and environments."""
    name = path.name
    possible = name.isidentifier() and name != "__pycache__" and path.is_dir()
    return possible and not (path / "pyvenv.cfg").exists()


def _has_code(folder: Path) -> bool:
    """True for a folder with modules, and for a loaded package without any at its top."""
    return folder.name in sys.modules or any(map(_is_module, _listed(folder)))


@lru_cache(maxsize=1)
def _own_files() -> dict[str, bytes]:
    """The files of this package, which a module of the pipeline imports too."""
    folder = _OWN_ROOT / _OWN
    return {name: file.read_bytes() for name, file in _of_package(folder, _OWN, frozenset())}
