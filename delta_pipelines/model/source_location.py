"""Where a dataset was declared, for error messages and links to the code."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path

from delta_pipelines.errors import SourceLocation

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def location_of_function(function: Callable[..., object]) -> SourceLocation | None:
    """The line of a function's first decorator or `def`, None for a built-in."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno) if code else None


def location_of_caller() -> SourceLocation | None:
    """The nearest frame outside this package: the user's line."""
    frame = inspect.currentframe()
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return SourceLocation(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
