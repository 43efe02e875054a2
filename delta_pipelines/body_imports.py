"""Modules that code imports when it runs, found in its compiled form and read without importing."""

import dis
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType

from delta_pipelines.own_code import OwnCode

_IMPORT = dis.opmap["IMPORT_NAME"]


def imported_code(code: CodeType, package: str, own: OwnCode) -> list[tuple[Path, CodeType]]:
    """The modules of one's own that code imports inside its body, and what those import.

    Args:
        code: A function's code.
        package: The package that relative imports start from.
        own: Whose modules count.

    Returns:
        File and compiled module, each once; a file is read once per process, so that a later edit
        does not count as what this process runs.
    """
    found: dict[Path, CodeType] = {}
    waiting = list(_names(code, package))
    while waiting:
        name = waiting.pop(0)
        file = own.module_file(name)
        if file is None or file in found:
            continue
        compiled = _compiled(file)
        if compiled is not None:
            found[file] = compiled
            inside = name if file.name == "__init__.py" else name.rpartition(".")[0]
            waiting += _names(compiled, inside)
    return list(found.items())


def _names(code: CodeType, package: str) -> Iterator[str]:
    """Absolute names of imported modules; `from a import b` gives `a` and `a.b`."""
    for part in (code, *(c for c in code.co_consts if isinstance(c, CodeType))):
        if part is not code:
            yield from _names(part, package)
        elif _IMPORT in code.co_code[::2]:
            # Of a module with many constants an operand takes several instructions.
            steps = [s for s in dis.get_instructions(code) if s.opname != "EXTENDED_ARG"]
            for index, step in enumerate(steps):
                if step.opname == "IMPORT_NAME":
                    level, items = steps[index - 2].argval, steps[index - 1].argval
                    module = _absolute(step.argval, level, package)
                    yield module
                    yield from (f"{module}.{item}" for item in items or ())


def _absolute(name: str, level: object, package: str) -> str:
    if not isinstance(level, int) or level <= 0:
        return name
    parts = package.split(".")
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, *([name] if name else [])])


@lru_cache(maxsize=4096)
def _compiled(file: Path) -> CodeType | None:
    try:
        return compile(file.read_bytes(), file.name, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
