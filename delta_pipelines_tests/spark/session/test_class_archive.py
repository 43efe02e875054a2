"""The archive of classes, written and used by real JVMs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines.errors import SessionError
from delta_pipelines.session.class_archive import archive_path, check_whole

SESSION = """
import json, sys, time
from pathlib import Path
from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines.session import get_session

began = time.monotonic()
spark = get_session(sys.argv[1], config={"spark.ui.enabled": "false"})
assert spark.range(3).count() == 3
maps = Path(f"/proc/{jvm_pid()}/maps").read_text()
print(json.dumps({"seconds": time.monotonic() - began, "archived": sys.argv[2] in maps}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_suites_jvm_uses_the_archive_of_this_machine(spark):
    """`.ci/run` writes it before the tests; otherwise there is no archive to use."""
    maps = Path(f"/proc/{jvm_pid()}/maps").read_text()
    assert (str(archive_path()) in maps) == archive_path().is_file()


@pytest.mark.skipif(not archive_path().is_file(), reason="no archive was written here")
def test_an_archive_that_was_cut_off_is_refused_before_a_session_could_map_it(tmp_path):
    cut = tmp_path / "cut.jsa"
    with archive_path().open("rb") as whole:
        cut.write_bytes(whole.read(5_000_000))
    with pytest.raises(SessionError, match="cannot use"):
        check_whole(cut)
    check_whole(archive_path())


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_command_writes_it_and_the_next_session_starts_sooner(tmp_path, record_property):
    # Java maps an archive of its own, too.
    cache = tmp_path / "my cache"
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}

    def session(name: str) -> dict[str, object]:
        command = [sys.executable, "-c", SESSION, str(tmp_path / name), str(cache)]
        ended = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert "cds" not in ended.stdout + ended.stderr
        measured: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
        return measured

    before = [session(f"before{n}") for n in range(3)]
    began = time.monotonic()
    command = [
        sys.executable,
        "-c",
        "from delta_pipelines.cli.commands import main; main()",
        "warm-up",
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    wrote = time.monotonic() - began
    [archive] = (cache / "delta_pipelines").iterdir()
    assert str(archive) in ended.stdout
    after = [session(f"after{n}") for n in range(3)]
    assert [measured["archived"] for measured in before + after] == [False] * 3 + [True] * 3
    starts = [
        sorted(float(measured["seconds"]) for measured in some)[1] for some in (before, after)
    ]
    record_property(
        "proved",
        f"archive of classes: written in {wrote:.0f} s; a session starts in {starts[1]:.1f} s "
        f"instead of {starts[0]:.1f} s",
    )
