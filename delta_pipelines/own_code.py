"""Which code is the user's own, and where its modules lie."""

import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType

_NOT_OWN = frozenset({*sys.stdlib_module_names, "delta", "delta_pipelines", "py4j", "pyspark"})
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class OwnCode:
    """The code around a declared function that belongs to its author.

    Args:
        package: Top-level package of the function's module.
        folder: Folder of its file; None when it has none, or a library's.
    """

    package: str
    folder: Path | None

    @classmethod
    def around(cls, function: object) -> "OwnCode":
        """The own code of whoever wrote a function (or a callable object's class)."""
        while not isinstance(getattr(function, "__code__", None), CodeType) or hasattr(
            function, "evalType"
        ):
            # A partial, a UDF or a cache around a function.
            inner = getattr(function, "func", getattr(function, "__wrapped__", None))
            if inner is None:
                break
            function = inner
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            code = None
            function = function if isinstance(function, type) else type(function)
        module = str(getattr(function, "__module__", None) or "")
        # What a library's decorator has wrapped has the library's file and the author's module.
        files = (code.co_filename if code is not None else None, _file_of(module))
        folders = (_own_folder(file) for file in files if file)
        return cls(module.split(".")[0], next(filter(None, folders), None))

    def has(self, module: str | None, file: str | None) -> bool:
        """Say whether a module is of the same author.

        Args:
            module: Its name.
            file: Its file, when known.
        """
        top = (module or "").split(".")[0]
        if top in ("", "__main__", self.package):
            return True
        if top in sys.builtin_module_names or self.folder is None:
            return False
        where = file or _file_of(module or "")
        # Helpers live in sibling packages too (a `src` folder, an editable install).
        return where is not None and _own_folder(where) is not None

    def has_module(self, module: ModuleType) -> bool:
        """Say whether a module is of the same author; one without a file may have a folder."""
        about = vars(module)
        folders = [str(Path(folder) / "__init__.py") for folder in about.get("__path__", ())]
        return self.has(module.__name__, about.get("__file__") or next(iter(folders), None))

    def module_file(self, module: str) -> Path | None:
        """The file of a module of one's own, found without importing it."""
        parts = module.split(".")
        roots = [self.folder] if self.folder else []
        if parts[0] == self.package:
            known = getattr(sys.modules.get(self.package), "__path__", None) or ()
            roots = [Path(path).parent for path in known] + roots
        elif parts[0] not in _NOT_OWN:
            roots += [Path(path) for path in sys.path if _is_own_root(path)]
        for root in roots:
            place = root.joinpath(*parts)
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file():
                    return file
        return None


@lru_cache(maxsize=256)
def _is_own_root(path: str) -> bool:
    """A folder of packages of one's own, as `src`; none into which packages were installed."""
    root = Path(path).absolute()
    return _own_folder(str(root / "any.py")) is not None and not any(root.glob("*.dist-info"))


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


@lru_cache(maxsize=4096)
def _own_folder(file: str) -> Path | None:
    """The folder of a file, None when it is a library's or no real file."""
    if file.startswith("<"):
        return None
    path = Path(file).absolute()
    if any(part in _INSTALLED for part in path.parts):
        return None
    standard = {Path(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib")}
    return None if standard & set(path.parents) else path.parent
