"""A standalone Spark cluster of two workers on loopback, made of PySpark's own files."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from delta_pipelines.session.java import java_executable

MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
REGISTERED = re.compile(r"Successfully registered with master")
_FAST = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_PATIENCE = 120.0


@dataclass
class SparkCluster:
    """A master and its workers, each a process.

    Args:
        folder: Logs, and what the executors write.
        memory: Memory of each worker.
        cores: Cores of each worker, as it tells the master.
    """

    folder: Path
    memory: str = "1g"
    cores: int = 1
    master: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, workers: int = 2) -> None:
        """Start the master, and workers that know nothing of this checkout."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "master.log"
        self._start("master.Master", ["--host", "127.0.0.1", "--port", "0"], log)
        self.master = _waited(lambda: MASTER.search(log.read_text()), "the master", log)[1]
        for number in range(workers):
            self.add_worker(number, wait=False)
        for number in range(workers):
            log = self._log_of(number)
            _waited(lambda log=log: REGISTERED.search(log.read_text()), "a worker", log)

    def add_worker(self, number: int, *, wait: bool = True) -> None:
        """Start another worker."""
        log = self._log_of(number)
        options = ["--host", "127.0.0.1", "-c", str(self.cores), "-m", self.memory]
        options += ["--work-dir", str(self.folder / f"work{number}"), self.master]
        self.workers.append(self._start("worker.Worker", options, log))
        if wait:
            _waited(lambda: REGISTERED.search(log.read_text()), "a worker", log)

    def kill_worker(self) -> list[int]:
        """As `kill -9` of one worker that has an executor, and of this executor.

        Returns:
            The killed processes.
        """
        for worker in self.workers:
            executors = _children(worker.pid)
            if executors:
                killed = [worker.pid, *executors]
                for pid in killed:  # the worker first: it would start another executor
                    os.kill(pid, signal.SIGKILL)
                worker.wait()
                self.workers.remove(worker)
                return killed
        raise AssertionError("no worker has an executor")

    def executors(self) -> list[int]:
        """Process ids of the executors that run."""
        return [pid for worker in self.workers for pid in _children(worker.pid)]

    def output(self) -> str:
        """What the executors printed."""
        return "\n".join(path.read_text() for path in self.folder.glob("work*/*/*/std*"))

    def stop(self) -> None:
        """End all processes of the cluster."""
        for process in reversed(self._processes):
            for child in _children(process.pid):
                _kill(child)
            process.kill()
        for process in self._processes:
            process.wait()

    def _with_bare_python(self) -> Path:
        """A folder in which `python3` has no library: PySpark comes from Spark's own zip."""
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
            script = folder / "python3"
            script.write_text(f'#!/bin/sh\nexec "{base}" -S "$@"\n')
            script.chmod(0o755)
        return folder

    def _log_of(self, number: int) -> Path:
        return self.folder / f"worker{number}.log"

    def _start(self, name: str, options: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        java = java_executable(os.environ) or "java"
        # Only what a machine of a cluster has: no PYTHONPATH, and no variables of the tests.
        kept = {key: os.environ[key] for key in ("JAVA_HOME", "LANG") if key in os.environ}
        core = next((home / "jars").glob("spark-core_*.jar")).name
        environment = kept | {
            "SPARK_HOME": str(home),
            # The script `spark-class` sets it.
            "SPARK_SCALA_VERSION": core.removeprefix("spark-core_").partition("-")[0],
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HOME": str(self.folder),
            "PATH": os.pathsep.join((str(self._with_bare_python()), os.defpath)),
        }
        command = [java, "-Xmx192m", *_FAST.split(), "-cp", f"{home / 'jars'}/*"]
        command += [f"org.apache.spark.deploy.{name}", "--webui-port", "0", *options]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process


@contextmanager
def spark_cluster(folder: Path, *, memory: str = "1g", cores: int = 1) -> Iterator[SparkCluster]:
    """Start a master and two workers, and stop them when the block ends."""
    cluster = SparkCluster(folder, memory, cores)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _waited(found: Callable[[], "re.Match[str] | None"], what: str, log: Path) -> "re.Match[str]":
    until = time.monotonic() + _PATIENCE
    while (match := found()) is None:
        assert time.monotonic() < until, f"{what} did not start:\n{log.read_text()[-4000:]}"
        time.sleep(0.1)
    return match


def _children(pid: int) -> list[int]:
    """Process ids of a process's children."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(n) for thread in threads for n in (thread / "children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
