"""Processes with a Spark of their own that run the code of a test."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOOP = """
import json, os, signal, sys, time
from pathlib import Path
names = {}
exec(os.environ["PREAMBLE"], names)
for line in sys.stdin:
    answer = {}
    try:
        names["answer"] = None
        exec(json.loads(line), names)
        answer["value"] = names["answer"]
    except BaseException as error:
        import traceback
        answer["error"] = "".join(traceback.format_exception(error))
    sys.stdout.write("answer " + json.dumps(answer) + chr(10))
    sys.stdout.flush()
"""


class Worker:
    """A process that runs pieces of code, one after the other, with the same names.

    Args:
        folder: Its working directory, and beside it what it writes to stderr.
        preamble: Code that runs first.
        environment: Further environment variables.
    """

    def __init__(self, folder: Path, preamble: str, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.errors = folder.with_name(f"{folder.name}.stderr")
        path = os.pathsep.join(filter(None, sys.path))
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LOOP],
                cwd=folder,
                env=os.environ | environment | {"PYTHONPATH": path, "PREAMBLE": preamble},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def start(self, code: str) -> None:
        """Send code and go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the last code that was sent; gives the value that the code left in `answer`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                reply = json.loads(line.removeprefix("answer "))
                assert "error" not in reply, reply["error"]
                return reply["value"]
        raise AssertionError(f"the process ended:\n{self.errors.read_text()[-4000:]}")

    def do(self, code: str) -> Any:
        """Send code and wait for its answer."""
        self.start(code)
        return self.answer()

    def end(self) -> None:
        """Let it end by itself, so that it takes its JVM along."""
        killer = threading.Timer(60, self.process.send_signal, args=(signal.SIGKILL,))
        killer.start()
        self.process.communicate()
        killer.cancel()


def wait_for(path: Path, seconds: float = 120) -> None:
    """Wait until a file exists."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
