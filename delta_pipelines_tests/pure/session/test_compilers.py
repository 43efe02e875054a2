"""Where cores are few, Java's compilers begin later: how many there are, and whose word is last."""

import os
from pathlib import Path

import pytest

from delta_pipelines.session import compilers, config
from delta_pipelines.session.compilers import available_cores, compiler_options
from delta_pipelines.session.config import JAVA_OPTIONS, spark_config


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def groups(tmp_path: Path, limits: dict[str, str], *, own: str) -> tuple[Path, Path]:
    """A tree of control groups, and the file that names a process's own."""
    root = tmp_path / "groups"
    for group, limit in limits.items():
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "cpu.max").write_text(limit)
    own_group = tmp_path / "own"
    own_group.write_text(own)
    return root, own_group


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({}, "0::/\n", 16),
        ({".": "max 100000\n"}, "0::/\n", 16),
        ({".": "200000 100000\n"}, "0::/\n", 2),
        ({".": "150000 100000\n"}, "0::/\n", 2),
        ({".": "20000 100000\n"}, "0::/\n", 1),
        ({".": "6400000 100000\n"}, "0::/\n", 16),
        ({"pods/one": "300000 100000\n"}, "0::/pods/one\n", 3),
        ({"pods": "200000 100000\n", "pods/one": "max 100000\n"}, "0::/pods/one\n", 2),
        ({"pods": "400000 100000\n", "pods/one": "100000 50000\n"}, "0::/pods/one\n", 2),
        ({"pods/other": "100000 100000\n"}, "0::/pods/one\n", 16),
        ({".": "100000 100000\n"}, "4:cpu:/\n", 16),
        ({".": "not a number\n"}, "0::/\n", 16),
    ],
)
def test_cores_are_what_the_control_groups_leave(
    tmp_path: Path, limits: dict[str, str], own: str, expected: int
) -> None:
    assert available_cores(*groups(tmp_path, limits, own=own)) == expected


@pytest.mark.usefixtures("many_cores")
def test_without_control_groups_all_cores_count(tmp_path: Path) -> None:
    assert available_cores(tmp_path / "none", tmp_path / "none") == 16


def test_what_the_process_may_run_on_is_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    root, own = groups(tmp_path, {".": "800000 100000\n"}, own="0::/\n")
    assert available_cores(root, own) == 1


def test_other_systems_count_the_machines_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores(tmp_path, tmp_path / "none") == 1


@pytest.mark.parametrize(("cores", "later"), [(1, True), (2, True), (3, False), (64, False)])
def test_a_session_has_the_options_where_cores_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, later: bool
) -> None:
    monkeypatch.setattr(config, "available_cores", lambda: cores)
    options = spark_config(tmp_path)[JAVA_OPTIONS].split()
    assert [option in options for option in compilers._LATER] == [later] * len(compilers._LATER)


def test_the_users_own_thresholds_come_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "available_cores", lambda: 1)
    own = "-XX:Tier4CompileThreshold=15000"
    options = spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS].split()
    ours = next(one for one in compiler_options(1) if one.startswith("-XX:Tier4CompileThreshold"))
    assert options.index(ours) < options.index(own)
