"""Of the code that functions may use, the author's counts by its content; the rest by versions."""

import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from delta_pipelines.user_code import author_code as room
from delta_pipelines.user_code.author_code import author_code, library_versions


def test_the_process_began_in_the_past():
    began = author_code_began()
    assert time.time_ns() - 86_400 * 10**9 * 365 < began <= room._LOADED_AT


author_code_began = room._began


@pytest.fixture(autouse=True)
def later(monkeypatch):
    """The process began after the test wrote its files."""
    monkeypatch.setattr(room, "_began", lambda: 2**63)


def loaded(name: str, file: Path) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(file)
    return module


@pytest.fixture
def author(tmp_path):
    """`jobs/main.py` is loaded; `helpers.py`, `lib/` and `lib/deep/` lie beside it."""
    root = tmp_path / "jobs"
    for file in (
        "main.py",
        "helpers.py",
        "lib/__init__.py",
        "lib/deep/inner.py",
        "data/rows.py",
        "data/rows.txt",
        "deep/down/rows.py",
        "space/of/names/a.py",
        "space/else/b.py",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("RATE = 1\n")
    (root / "rates.csv").write_text("1")
    (root / "lib" / ".#inner.py").symlink_to("author@host")  # an editor's lock
    return root


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ("main.py", True),
        ("helpers.py", True),
        ("lib/deep/inner.py", True),
        ("lib/new.py", True),
        ("rates.csv", False),
        ("data/rows.py", True),
        ("data/rows.txt", False),
        ("deep/down/rows.py", False),
    ],
)
def test_code_beside_a_loaded_module_and_in_packages_counts(author, changed, counts):
    modules = [loaded("main", author / "main.py")]
    before = author_code(modules)
    assert before == author_code([*modules, loaded("helpers", author / "helpers.py")])
    # As long as before, and no later than before: neither size nor time of a file is looked at.
    file = author / changed
    times = file.stat() if file.exists() else None
    file.write_text("RATE = 2\n")
    if times:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (author_code(modules) != before) is counts


@pytest.mark.parametrize("name", ["lib", "lib.deep.inner"])
def test_of_a_package_the_whole_folder_that_it_is_imported_from_counts(author, name):
    files = {"lib": "lib/__init__.py", "lib.deep.inner": "lib/deep/inner.py"}
    (author / "lib/deep/__init__.py").write_text("")
    modules = [loaded(name, author / files[name])]
    before = author_code(modules)
    (author / "helpers.py").write_text("RATE = 3\n")
    assert author_code(modules) != before


def test_of_a_namespace_the_whole_counts(author):
    modules = [loaded("space.of.names.a", author / "space/of/names/a.py")]
    before = author_code(modules)
    (author / "space/else/b.py").write_text("RATE = 4\n")
    assert author_code(modules) != before


def test_an_archive_counts_by_its_content(tmp_path):
    archive = tmp_path / "code.zip"
    archive.write_bytes(b"one")
    modules = [loaded("packed", archive / "packed.py")]
    before = author_code(modules)
    archive.write_bytes(b"two")
    assert author_code(modules) != before


def test_pythons_own_installed_modules_sparks_and_ours_do_not_count():
    import json

    import py4j
    import pyspark

    nothing = author_code([])
    odd = ModuleType("odd")
    odd.__file__ = None  # type: ignore[assignment]
    ours = [sys.modules["delta_pipelines"], json, pytest, pyspark, py4j, sys, odd]
    assert author_code(ours) == nothing
    assert author_code([sys.modules[__name__]]) != nothing


def test_a_file_that_changed_since_the_process_began_is_named(author, monkeypatch):
    modules = [loaded("main", author / "main.py")]
    assert author_code(modules).changed == ()
    monkeypatch.setattr(room, "_began", lambda: (author / "rates.csv").stat().st_ctime_ns)
    time.sleep(0.02)  # the clock of files is a coarse one
    # An older time of change, as a copy that keeps times leaves it.
    (author / "helpers.py").write_text("RATE = 5\n")
    os.utime(author / "helpers.py", (0, 0))
    assert [file.name for file in author_code(modules).changed] == ["helpers.py"]


def test_versions_are_those_of_python_and_of_what_is_installed(monkeypatch):
    library_versions.cache_clear()
    before = library_versions()
    monkeypatch.setattr(room.sys, "version", "4.0")
    assert library_versions() == before, "asked for once"
    library_versions.cache_clear()
    assert library_versions() != before
    library_versions.cache_clear()
