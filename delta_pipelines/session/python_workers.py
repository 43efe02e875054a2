"""What Spark's Python workers can import: they are processes of their own, with their own paths.

A function that a worker is to run travels as the name of its module, which the worker imports. It
looks in its working directory and in PYTHONPATH, which it has from the JVM, as the JVM from us.
"""

import os
import sys
from pathlib import Path


def let_workers_import(folder: Path) -> bool:
    """Put a folder first into PYTHONPATH, for the workers of a JVM that starts after this.

    Args:
        folder: Absolute; what it has stands before everything else that a worker could import.

    Returns:
        False where that cannot be: the folder has a module that would hide one of Python's own,
        without which no worker starts, or a name that PYTHONPATH cannot hold.

    Example:
        >>> let_workers_import(Path("a:b" if os.pathsep == ":" else "a;b"))
        False
    """
    if os.pathsep in str(folder) or _hides_standard_modules(folder):
        return False
    listed = os.environ.get("PYTHONPATH")
    others = [path for path in listed.split(os.pathsep) if path != str(folder)] if listed else []
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *others])
    return True


def _hides_standard_modules(folder: Path) -> bool:
    modules = {path.stem for path in folder.glob("*.py")}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    return not modules.isdisjoint(sys.stdlib_module_names)
