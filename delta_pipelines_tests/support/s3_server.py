"""Real S3 servers for tests, and a proxy that counts, loses, refuses and changes requests."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from delta_pipelines_tests.support.postgres_server import free_port

KEY, SECRET = "AKIDTESTS", "s3-s3cret/of+tests"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
BUCKET = "lake"


def settings_for(port: int) -> dict[str, str]:
    """The settings of a session for a server of this machine."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def client(port: int) -> Any:
    """A client that is not Spark's."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )


@contextmanager
def moto_server() -> Iterator[int]:
    """Start moto with an empty bucket `lake`, in memory; gives its port."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _serving(command, port, dict(os.environ)):
        yield port


def versitygw() -> str | None:
    """The second server's program (`go install .../versitygw`), None where it is not installed."""
    return shutil.which("versitygw", path=f"{os.environ.get('PATH')}:{Path.home() / 'go/bin'}")


@contextmanager
def versity_server(folder: Path) -> Iterator[int]:
    """Start a server that keeps its objects in a folder; gives its port."""
    port = free_port()
    command = [str(versitygw()), "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    folder.mkdir(exist_ok=True)
    environment = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with _serving(command, port, environment):
        yield port


@contextmanager
def _serving(command: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, **quiet)
    try:
        _wait_for(port, process)
        client(port).create_bucket(Bucket=BUCKET)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            requests.get(f"http://127.0.0.1:{port}/", timeout=5)
        except requests.RequestException:
            assert process.poll() is None, f"{process.args} ended"
            assert time.monotonic() < deadline, f"{process.args} does not answer"
            time.sleep(0.1)
        else:
            return


@dataclass
class Proxy:
    """What a proxy in front of an S3 server does with requests; may be changed while it runs.

    Args:
        upstream: Port of the server.
        loses: Says of a request (method, path) whether its answer is lost: the server has done
            what it says, and the connection ends.
        without: Names of headers that are not passed on.
        status: An answer instead of the server's: (status, code of the error).
        refuses: Says of a request whether it is refused as not allowed.
        counted: Requests by kind: LIST, or the method.
        lost: How many answers were lost.
    """

    upstream: int
    loses: Callable[[str, str], bool] = lambda method, path: False
    without: frozenset[str] = frozenset()
    status: tuple[int, str] | None = None
    refuses: Callable[[str, str], bool] = lambda method, path: False
    counted: Counter[str] = field(default_factory=Counter)
    paths: list[str] = field(default_factory=list)
    lost: int = 0
    port: int = 0

    def count(self, method: str, path: str) -> None:
        kind = "LIST" if method == "GET" and "list-type=2" in path else method
        self.counted[kind] += 1
        self.paths.append(f"{kind} {path}")

    def reset(self) -> None:
        """Forget what was counted."""
        self.counted.clear()
        self.paths.clear()


@contextmanager
def proxy(upstream: int) -> Iterator[Proxy]:
    """Start a proxy in front of a server of this machine."""
    made = Proxy(upstream)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def _handler(made: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.count(self.command, self.path)
            if made.status is not None:
                self.refuse(*made.status)
                return
            if made.refuses(self.command, self.path):
                self.refuse(403, "AccessDenied")
                return
            headers = {k: v for k, v in self.headers.items() if k.lower() not in made.without}
            headers.pop("Expect", None)
            connection = HTTPConnection("127.0.0.1", made.upstream, timeout=60)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if made.loses(self.command, self.path):
                made.lost += 1
                self.close_connection = True
                self.connection.close()
                return
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") or "0"
            self.send_header("Content-Length", length if self.command == "HEAD" else len(content))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def refuse(self, status: int, code: str) -> None:
            text = f"<Error><Code>{code}</Code><Message>refused</Message></Error>".encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815

    return Handler
