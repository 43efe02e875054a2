"""Load the pipeline that the command line's TARGET names."""

import importlib
import importlib.util
import os
import sys
import traceback
import uuid
from pathlib import Path
from types import ModuleType

import click

from delta_pipelines.errors import PipelineError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.security.redaction import Redaction
from delta_pipelines.session.python_workers import let_workers_import
from delta_pipelines.user_code.author_code import is_the_authors

_LATER = (
    " Spark has not started while the file is imported: make this (a UDF, a column) inside the "
    "dataset's function."
)


def load_pipeline(target: str) -> Pipeline:
    """Import the pipeline that a TARGET names.

    Imports are searched in the file's own folder first and in the working directory last, so that
    a file in a package finds its package when the command runs in the repository's root.

    Args:
        target: `package.module:variable` or `path/to/file.py:variable`.

    Raises:
        click.BadParameter: There is no such module, file or pipeline.
        PipelineError: The module's declarations are wrong.
    """
    where, _, variable = target.rpartition(":")
    if not where:
        raise click.BadParameter(f"{target!r} is not of the form module:variable.")
    path = _file(where) if where.endswith(".py") else None
    if path is None and not all(part.isidentifier() for part in where.split(".")):
        raise click.BadParameter(f"{where!r} is neither a module nor a file that ends in .py.")
    folder, name = (path.parent, path.stem) if path is not None else (Path.cwd(), where)
    sys.path.insert(0, str(folder))
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    importable = let_workers_import(folder)  # before the module, which may start Spark itself
    try:
        if path is not None and "." in name:
            module = _loaded(path)
        else:
            module = importlib.import_module(name)
            if path is not None and Path(getattr(module, "__file__", None) or "").resolve() != path:
                module = _loaded(path)
            elif path is not None and not importable:
                _send_whole(module)
    except ModuleNotFoundError as error:
        hint = _as_a_module(path, variable)
        raise _not_imported(f"cannot import {where}: {error}.", hint) from error
    except PipelineError:
        raise
    except Exception as error:
        hint = _as_a_module(path, variable) if isinstance(error, ImportError) else ""
        raise _not_imported(f"{where} {_failed(error)}", hint) from error
    pipeline = getattr(module, variable, None)
    if not isinstance(pipeline, Pipeline):
        named = [name for name, value in vars(module).items() if isinstance(value, Pipeline)]
        hint = f" It has: {', '.join(named)}." if named else ""
        raise click.BadParameter(f"{where} has no pipeline {variable!r}.{hint}")
    return pipeline


def _as_a_module(path: Path | None, variable: str) -> str:
    """Suggest the module name of a file in a package: as a file, it has no relative imports."""
    if path is None:
        return ""
    root = next((p for p in path.parents if not (p / "__init__.py").is_file()), path.parent)
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if root == path.parent or not all(part.isidentifier() for part in parts):
        return ""
    there = "" if root == Path.cwd() else f" from the folder {root}"
    named = f"{'.'.join(parts)}:{variable}"
    return f" The file is part of a package: name it as a module, `{named}`{there}."


def _not_imported(message: str, hint: str) -> click.BadParameter:
    # The module may have loaded credentials into the environment before it failed.
    return click.BadParameter(Redaction.of(os.environ).text(message) + hint)


def _failed(error: Exception) -> str:
    """Describe in one line what a module raised during its import, and where."""
    if isinstance(error, SyntaxError):
        position = f"{error.filename}:{error.lineno}"
        return f"is not valid Python: {error.msg} ({position})."
    frames = traceback.extract_tb(error.__traceback__)
    authors = [f for f in frames if f.filename[:1] != "<" and is_the_authors(f.filename)]
    last = (authors or frames)[-1]
    hint = _LATER if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error) else ""
    return f"raised {type(error).__name__}: {error} ({last.filename}:{last.lineno}).{hint}"


def _file(where: str) -> Path:
    try:
        path = Path(where).resolve()
        if path.is_file():
            return path
    except (OSError, ValueError):  # a name that no file can have
        pass
    raise click.BadParameter(f"there is no file {where!r}.")


def _loaded(path: Path) -> ModuleType:
    """Import a file by its path: its name belongs to another module or is not a module name.

    Examples: `calendar.py`, `my.shop.py`.
    """
    name = f"{path.stem.replace('.', '_')}_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    _send_whole(module)
    spec.loader.exec_module(module)
    return module


def _send_whole(module: ModuleType) -> None:
    """Pickle a module's functions by value: Spark's workers cannot import it by name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
