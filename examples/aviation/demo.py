"""What `make demo` runs: fetch real data, run the pipeline once, serve it in the Dagster UI."""

import argparse
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from rich.console import Console
from rich.markup import escape

from examples.aviation import fetch
from examples.aviation.catalogue import AIRPORT_RELEASES
from examples.aviation.dagster_dev import (
    CHECKOUT,
    PREFERRED_PORT,
    ServerError,
    dagster_dev,
    free_port,
)
from examples.aviation.landing import WAREHOUSE, fetch_command

_FIRST_RELEASES = len(AIRPORT_RELEASES) - 1
_FIRST_DAYS = 334
"""January to November; December comes with the next fetch."""


def run_pipeline() -> int:
    """Run the pipeline once, with live progress; returns the exit code.

    In a process of its own: the embedded catalog admits one process, and a JVM in this one would
    hold it for as long as the UI is open.
    """
    command = [sys.executable, "-c", "from delta_pipelines.cli.commands import main; main()", "run"]
    command += ["examples.aviation.pipeline:aviation", "--warehouse", str(WAREHOUSE)]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


def open_ui(port: int, console: Console) -> int:
    """Serve the Dagster UI until Ctrl-C; returns the exit code."""
    console.print("\nStarting `dagster dev` ...")
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            return
        stopped.set()
        raise KeyboardInterrupt

    # Also where a background shell left SIGINT ignored; children would inherit that.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        with dagster_dev(port) as address:
            console.print(f"The pipeline is at [bold]{address}[/bold] (Ctrl-C ends it).\n")
            console.print(
                "The run above was the command line's. Dagster shows the runs that it started, so\n"
                "there no asset is materialized yet; it will leave alone what has not changed.\n\n"
                "Let a new airport release and December's flights arrive, and see what the\n"
                "streaming table and the upserts make of them:\n"
                f"  1. in another terminal: {escape(fetch_command())}\n"
                f"  2. launch a run of the job [bold]aviation_refresh[/bold] at {address}/jobs\n\n"
                "delays_by_day has a partition for each day. The run computes those that the new\n"
                "reports make stale. To compute other days, press [bold]Materialize[/bold] at\n"
                f"{address}/assets/aviation/delays_by_day and choose some of 2013."
            )
            stopped.wait()
    except KeyboardInterrupt:
        console.print("\nEnded.")
    except ServerError as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", style="red", markup=False)
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.aviation.demo", description="Run the aviation example."
    )
    parser.add_argument("--no-ui", action="store_true", help="stop after the run")
    parser.add_argument(
        "--port", type=int, help=f"port of the UI (default: {PREFERRED_PORT}, else a free one)"
    )
    parser.add_argument(
        "--releases",
        type=int,
        default=_FIRST_RELEASES,
        choices=range(1, len(AIRPORT_RELEASES) + 1),
        help="how many airport releases to land first (default: %(default)s)",
    )
    parser.add_argument(
        "--days",
        type=int,
        default=_FIRST_DAYS,
        help="how many days of flights to land first (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    try:
        console.rule("Fetch")
        code = fetch.main(["--releases", str(options.releases), "--days", str(options.days)])
        if code == 0:
            console.rule("Run")
            code = run_pipeline()
    except KeyboardInterrupt:
        return 130
    if code != 0 or options.no_ui:
        return code
    port = free_port(options.port or PREFERRED_PORT)
    if options.port not in (None, port):
        parser.error(f"port {options.port} is taken; leave out --port to get a free one")
    return open_ui(port, console)


if __name__ == "__main__":
    sys.exit(main())
