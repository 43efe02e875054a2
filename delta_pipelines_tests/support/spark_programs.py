"""Python programs in processes of their own that start Spark and report what they find."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PREAMBLE = """
import json, os, sys
from pathlib import Path
from delta_pipelines.errors import SessionError
from delta_pipelines.session import check_session, get_session, spark_config, stop_session

settings = json.loads(os.environ["SPARK_SETTINGS"])

def session(warehouse, **arguments):
    return get_session(warehouse, config=settings, **arguments)

def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except SessionError as error:
        return f"{type(error).__name__}: {error}"
    return "not refused"

def say(*words):
    print("say", json.dumps(words), flush=True)

def wait_for_line():
    sys.stdin.readline()
"""


class Program:
    """A Python program in a process and a working directory of its own."""

    def __init__(
        self, code: str, folder: Path, settings: dict[str, str], further: dict[str, str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "SPARK_SETTINGS": json.dumps(settings),
            **further,
        }
        self.errors = folder.parent / f"{folder.name}.stderr"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PREAMBLE + code],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def says(self) -> list[object]:
        """Wait for the next thing that the program says."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("say "):
                said: list[object] = json.loads(line.removeprefix("say "))
                return said
        raise AssertionError(f"The program ended early:\n{self.errors.read_text()[-4000:]}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0, self.errors.read_text()[-4000:]


Run = Callable[..., Program]


@contextmanager
def running_programs(folder: Path, settings: dict[str, str]) -> Iterator[Run]:
    """Start programs, and end those that still run when the block does.

    Args:
        folder: Each gets a working directory in it.
        settings: Spark's settings, which a program finds as `settings`.
    """
    programs: list[Program] = []

    def start(code: str, name: str = "cwd", **environment: str) -> Program:
        programs.append(Program(code, folder / name, settings, environment))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        program.process.communicate()
