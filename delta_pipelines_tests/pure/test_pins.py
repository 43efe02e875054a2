"""The pins of `constraints.txt` fit every Python that `pyproject.toml` allows."""

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

PINS = (Path(__file__).parents[2] / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize("python", ["3.10.0", "3.11.0", "3.12.0", "3.13.0"])
def test_no_pin_needs_a_newer_python(python: str) -> None:
    environment = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    checked = 0
    unfit = []
    for line in PINS:
        pin = Requirement(line)
        needed = _needed_python(pin)
        if needed is None or (pin.marker and not pin.marker.evaluate(environment)):
            continue
        checked += 1
        if python not in needed:
            unfit.append(f"{line} needs Python {needed}")
    assert unfit == []
    assert checked > 80


def _needed_python(pin: Requirement) -> SpecifierSet | None:
    """The versions of Python that a pin accepts; None if its version is not installed here."""
    try:
        found = metadata(pin.name)
    except PackageNotFoundError:
        return None
    if found["Version"] not in pin.specifier:
        return None
    return SpecifierSet(found.get("Requires-Python") or "")
