"""A real PostgreSQL server for tests, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "metastore"
PASSWORD = "p@ss/word:s3cret"


@dataclass(frozen=True)
class PostgresServer:
    """A server that runs on this machine."""

    binaries: Path
    port: int

    @property
    def url(self) -> str:
        """Address of a database `metastore` that its user owns, without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/metastore"

    def query(self, sql: str, database: str = "metastore") -> str:
        """The values that a query gives, as psql prints them."""
        asked = [str(self.binaries / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-At"]
        command = [*asked, "-U", "postgres", "-d", database, "-c", sql]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        return ended.stdout.strip()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server that asks its user `metastore` for a password; it goes with its data."""
    binaries = _binaries()
    # Not pytest's folder: the server's own user must get there.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    unprivileged = _unprivileged()
    try:
        if unprivileged:
            shutil.chown(folder, *_owner())
        data = folder / "data"
        trust = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"]
        _run([*unprivileged, str(binaries / "initdb"), f"--pgdata={data}", *trust], folder)
        rules = (data / "pg_hba.conf").read_text()
        (data / "pg_hba.conf").write_text(f"host all {USER} 127.0.0.1/32 scram-sha-256\n{rules}")
        server = PostgresServer(binaries, free_port())
        settings = f"-p {server.port} -c listen_addresses=127.0.0.1 -c fsync=off"
        settings += f" -c unix_socket_directories={folder}"
        control = [*unprivileged, str(binaries / "pg_ctl"), f"--pgdata={data}", "--wait"]
        _run([*control, "-o", settings, "-l", str(folder / "log"), "start"], folder)
        try:
            server.query(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'", "postgres")
            server.query(f"CREATE DATABASE metastore OWNER {USER}", "postgres")
            yield server
        finally:
            _run([*control, "--mode=immediate", "stop"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.get_exec_path())]
    needed = ("initdb", "pg_ctl", "psql")
    found = [place for place in places if all((place / name).exists() for name in needed)]
    assert found, "tests start a PostgreSQL server: install it (apt-get install postgresql)"
    return found[0]


def _unprivileged() -> list[str]:
    """`initdb` refuses root; anybody else is fine."""
    if os.getuid() != 0:
        return []
    user, group = _owner()
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]


def _owner() -> tuple[str, str]:
    import grp
    import pwd

    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name


def _run(command: list[str], folder: Path) -> None:
    with (folder / "output").open("a+") as output:  # a pipe would stay open in the server
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)
        output.seek(0)
        assert ended.returncode == 0, f"{command}: {output.read()}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
