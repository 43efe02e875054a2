"""TARGETs of the command line that are files inside packages; more of them in `test_cli.py`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from delta_pipelines.cli.target import load_pipeline

PIPELINE = 'import delta_pipelines as dp\nshop = dp.Pipeline("shop", schema="shop")\n'
PACKAGE = "scratch_target_shop"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The root of a repository with a package in it, in which the command is started."""
    (tmp_path / PACKAGE / "night").mkdir(parents=True)
    for package in (tmp_path / PACKAGE, tmp_path / PACKAGE / "night"):
        (package / "__init__.py").touch()
    (tmp_path / PACKAGE / "prices.py").write_text("DOUBLE = 2\n")
    monkeypatch.chdir(tmp_path)
    # Not '', which stands for the working directory and which the console script has not.
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_file_finds_its_package_from_the_working_directory(root: Path) -> None:
    text = f"from {PACKAGE}.prices import DOUBLE\n" + PIPELINE
    (root / PACKAGE / "scratch_absolute.py").write_text(text)
    assert load_pipeline(f"{PACKAGE}/scratch_absolute.py:shop").name == "shop"


def test_the_working_directory_hides_nothing_from_a_file(root: Path) -> None:
    for folder, double in (("", 3), ("lake", 4)):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "scratch_target_prices.py").write_text(f"DOUBLE = {double}\n")
    text = "from scratch_target_prices import DOUBLE\n" + PIPELINE + "shop.double = DOUBLE\n"
    (root / "lake" / "scratch_beside.py").write_text(text)
    assert vars(load_pipeline("lake/scratch_beside.py:shop"))["double"] == 4
    assert sys.path[-1] == str(root)


@pytest.mark.parametrize(
    ("file", "line", "named"),
    [
        ("relative.py", "from .prices import DOUBLE", f"`{PACKAGE}.relative:shop`"),
        ("night/lost.py", "import no_such_module_at_all", f"`{PACKAGE}.night.lost:shop`"),
        ("night/__init__.py", "from ..prices import DOUBLE", f"`{PACKAGE}.night:shop`"),
    ],
)
def test_a_file_in_a_package_that_cannot_be_imported_is_to_be_named_as_a_module(
    root: Path, monkeypatch: pytest.MonkeyPatch, file: str, line: str, named: str
) -> None:
    (root / PACKAGE / file).write_text(f"{line}\n{PIPELINE}")
    with pytest.raises(click.BadParameter) as caught:
        load_pipeline(f"{PACKAGE}/{file}:shop")
    assert caught.value.message.endswith(f" name it as a module, {named}.")
    monkeypatch.chdir(root / PACKAGE)
    with pytest.raises(click.BadParameter) as caught:
        load_pipeline(f"{file}:shop")
    assert caught.value.message.endswith(f" name it as a module, {named} from the folder {root}.")


def test_named_as_a_module_it_imports_relatively(root: Path) -> None:
    (root / PACKAGE / "relative.py").write_text(f"from .prices import DOUBLE\n{PIPELINE}")
    assert load_pipeline(f"{PACKAGE}.relative:shop").name == "shop"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("scratch_lonely.py", "import no_such_module_at_all"),  # in no package
        (f"{PACKAGE}/broken.py", "1 / 0"),  # not for want of an import
        (f"{PACKAGE}/with.dot.py", "import no_such_module_at_all"),  # no module's name
    ],
)
def test_no_other_file_is_to_be_named_as_a_module(root: Path, file: str, line: str) -> None:
    (root / file).write_text(f"{line}\n{PIPELINE}")
    with pytest.raises(click.BadParameter) as caught:
        load_pipeline(f"{file}:shop")
    assert "as a module" not in caught.value.message


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('import json\njson.loads("{")\n', r"JSONDecodeError: .*\(.*scratch_raises\.py:4\)\.$"),
        (
            # As `udf(f, "int")` does without a session; other tests of this process may have one.
            (
                "from pyspark.errors import PySparkRuntimeError as E\n"
                'raise E(errorClass="SESSION_OR_CONTEXT_NOT_EXISTS", messageParameters={})\n'
            ),
            r"scratch_raises\.py:4\)\. .* inside the dataset's function\.$",
        ),
    ],
)
def test_a_file_that_raises_an_error_names_its_own_line_and_a_remedy(
    root: Path, lines: str, said: str
) -> None:
    (root / "scratch_raises.py").write_text(PIPELINE + lines)
    with pytest.raises(click.BadParameter, match=said):
        load_pipeline("scratch_raises.py:shop")
