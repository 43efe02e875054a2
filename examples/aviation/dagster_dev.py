"""The Dagster UI of the example as a child process that starts, answers and ends cleanly."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.aviation.landing import FOLDER

DAGSTER_HOME = FOLDER / ".dagster"
CHECKOUT = FOLDER.parent.parent
HOST = "127.0.0.1"
PREFERRED_PORT = 3000

_START_SECONDS = 180
_STOP_SECONDS = 30


class ServerError(Exception):
    """`dagster dev` did not start; its last lines are in the message."""


def free_port(preferred: int = PREFERRED_PORT) -> int:
    """Find a free port of this machine.

    Args:
        preferred: Taken when it is free; else the system chooses one.
    """
    for port in (preferred, 0):
        with socket.socket() as candidate:
            # Dagster's server binds with this option too: without it a port that was closed a
            # moment ago counts as taken.
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((HOST, port))
            except OSError:
                continue
            return int(candidate.getsockname()[1])
    raise ServerError("The system has no free port left.")


@contextmanager
def dagster_dev(port: int, *, log: Path = DAGSTER_HOME / "dev.log") -> Iterator[str]:
    """Run `dagster dev` while the block runs, and end all of its processes after it.

    Args:
        port: A free port.
        log: File for everything that Dagster prints.

    Yields:
        The address, once it answers.

    Raises:
        ServerError: It ended, or did not answer within 180 seconds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"DAGSTER_HOME": str(DAGSTER_HOME)}
    command = [sys.executable, "-m", "dagster", "dev", "--host", HOST, "--port", str(port)]
    command += ["--workspace", str(CHECKOUT / "workspace.yaml")]
    with log.open("wb") as output:
        # A session of its own: a Ctrl-C in the terminal reaches this process only, which then ends
        # Dagster's processes in order; and whatever is left of the group can be found and ended.
        server = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://{HOST}:{port}"
        _wait_for_answer(server, address, log)
        yield address
    finally:
        _end(server)


def _wait_for_answer(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ServerError(
                f"`dagster dev` ended with code {server.returncode} before it served {address}. "
                f"Its last lines, of {log}:\n{_last_lines(log)}"
            )
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise ServerError(
        f"`dagster dev` did not serve {address} within {_START_SECONDS} seconds. "
        f"Its last lines, of {log}:\n{_last_lines(log)}"
    )


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask the server to end its children, then end what is left of its process group."""
    for request in (signal.SIGINT, signal.SIGTERM):
        if server.poll() is None:
            server.send_signal(request)
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    try:
        os.killpg(server.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            server.poll()
            os.killpg(server.pid, 0)
            time.sleep(0.2)
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    server.wait()


def _last_lines(log: Path, count: int = 20) -> str:
    lines = log.read_text(errors="replace").splitlines()[-count:]
    return "\n".join(f"  {line}" for line in lines)
