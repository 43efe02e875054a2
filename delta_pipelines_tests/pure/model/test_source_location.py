"""Where something was declared."""

import inspect
from functools import wraps
from pathlib import Path

import delta_pipelines
from delta_pipelines.errors import SourceLocation
from delta_pipelines.model.source_location import location_of_caller, location_of_function


def decorator(function):
    @wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def plain(): ...


@decorator
def decorated(): ...


def test_a_location_reads_like_an_editors_link() -> None:
    assert str(SourceLocation("a/b.py", 12)) == "a/b.py:12"


def test_a_function_stands_where_its_first_line_is() -> None:
    line = inspect.getsourcelines(plain)[1]
    assert location_of_function(plain) == SourceLocation(__file__, line)


def test_a_wrapped_function_is_found_at_its_decorator() -> None:
    location = location_of_function(decorated)
    assert location is not None
    assert location.file == __file__
    assert "decorator" in Path(__file__).read_text().splitlines()[location.line - 1]


def test_a_built_in_stands_nowhere() -> None:
    assert location_of_function(len) is None


def test_the_caller_is_the_first_frame_outside_the_package() -> None:
    def here() -> SourceLocation | None:
        return location_of_caller()

    location = here()
    assert location is not None
    assert location.file == __file__


def test_a_folder_with_the_package_name_as_prefix_is_outside_the_package() -> None:
    package = Path(delta_pipelines.__file__).parent
    neighbour = package.with_name(f"{package.name}_of_mine") / "flights.py"
    found: dict[str, SourceLocation | None] = {}
    code = compile("found['x'] = location_of_caller()", str(neighbour), "exec")
    exec(code, {"found": found, "location_of_caller": location_of_caller})
    assert found["x"] == SourceLocation(str(neighbour), 1)
