"""What the example says while nothing has landed."""

import os
import subprocess
from pathlib import Path

import pytest

from examples.aviation.landing import fetch_command, landed_file, landed_releases, landed_reports


def test_a_missing_landing_zone_names_the_command(tmp_path: Path) -> None:
    for look in (landed_releases, landed_reports, lambda folder: landed_file("a.csv", folder)):
        with pytest.raises(FileNotFoundError) as caught:
            look(tmp_path)
        assert str(caught.value).endswith(f": {fetch_command()}")


def test_the_command_works_in_any_folder_without_an_environment(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{fetch_command()} --help"],
        cwd=tmp_path,
        env={**bare, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Fetch the aviation example's data." in done.stdout
