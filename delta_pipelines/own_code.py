"""Which code is the user's own, and where its modules lie."""

import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType

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
        file = code.co_filename if code is not None else _file_of(module)
        return cls(module.split(".")[0], _own_folder(file) if file else None)

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

    def module_file(self, module: str) -> Path | None:
        """The file of a module of one's own, found without importing it."""
        parts = module.split(".")
        roots = [self.folder] if self.folder else []
        if parts[0] == self.package:
            known = getattr(sys.modules.get(self.package), "__path__", None) or ()
            roots = [Path(path).parent for path in known] + roots
        for root in roots:
            place = root.joinpath(*parts)
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file():
                    return file
        return None


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
