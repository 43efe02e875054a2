"""What is wrong with a store is one sentence with a remedy, within seconds, before anything runs.

One process opens a session after the other.
"""

import os
import re
import socket
from contextlib import closing

import pytest

from delta_pipelines.system.jars import default_ivy_home
from delta_pipelines_tests.spark.s3.conftest import WAREHOUSE
from delta_pipelines_tests.support.postgres_server import PASSWORD, free_port
from delta_pipelines_tests.support.s3_server import CREDENTIALS, KEY, SECRET, settings_for
from delta_pipelines_tests.support.spark_workers import Worker

IVY = str(default_ivy_home())
SECONDS = 40
"""With the start of a JVM."""

PREAMBLE = """
import os, time
import delta_pipelines as dp
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HOME")
BEFORE = {name: os.environ.get(name) for name in NAMES}

def opened(warehouse, catalog, settings, environment):
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ.update({k: v for k, v in (BEFORE | environment).items() if v})
    started_at = time.monotonic()
    try:
        spark = dp.get_session(warehouse, catalog=catalog, config=settings)
    except dp.PipelineError as error:
        return type(error).__name__, str(error), time.monotonic() - started_at
    try:
        p = dp.Pipeline("p", schema="refused")
        p.materialized_view("t", "SELECT 1 AS a")
        result = p.run(spark, force=True, raise_on_error=False).results["t"]
    finally:
        spark.stop()
    return result.status, str(result.error), time.monotonic() - started_at
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    secret = {"DELTA_PIPELINES_CATALOG_PASSWORD": PASSWORD, "AWS_EC2_METADATA_DISABLED": "true"}
    worker = Worker(tmp_path_factory.mktemp("process") / "it", PREAMBLE, secret)
    yield worker
    worker.end()


@pytest.fixture
def opened(process, catalog, store, process_settings):
    """Opens a session and runs a table: the status, or the error's class, and the text."""

    def attempt(warehouse=WAREHOUSE, *, port=None, environment=CREDENTIALS, **more):
        # The jars are looked for in the home folder, which some tests change.
        settings = process_settings | {"spark.jars.ivy": IVY}
        settings |= settings_for(port or store.port) | more
        asked = f"{warehouse!r}, {catalog.url!r}, {settings!r}, {environment!r}"
        status, text, seconds = process.do(f"answer = opened({asked})")
        assert seconds < SECONDS or status == "completed", text
        for secret in (SECRET, KEY):
            assert secret not in text + process.errors.read_text()
        return status, text

    yield attempt
    store.status, store.without = None, frozenset()


def test_a_bucket_that_does_not_exist(opened) -> None:
    status, text = opened("s3a://no-such-lake/warehouse")
    assert status == "StorageError"
    assert re.match(r"s3a://no-such-lake\S*: The bucket does not exist", text)


def test_an_endpoint_that_does_not_answer(opened) -> None:
    status, text = opened(port=free_port())
    assert (status, "The store does not answer" in text) == ("StorageError", True)


def test_an_endpoint_that_accepts_and_says_nothing(opened) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        status, text = opened(port=silent.getsockname()[1])
    assert (status, "The store does not answer" in text) == ("StorageError", True)


def test_no_credentials(opened, tmp_path) -> None:
    status, text = opened(environment={"HOME": str(tmp_path)})
    assert (status, "No credentials for S3 were found" in text) == ("StorageError", True)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((403, "InvalidAccessKeyId"), "does not accept the credentials"),
        ((403, "SignatureDoesNotMatch"), "does not accept the credentials"),
        ((400, "ExpiredToken"), "have expired"),
        ((403, "AccessDenied"), "do not allow this"),
        ((403, "RequestTimeTooSkewed"), "clock is wrong"),
        ((301, "PermanentRedirect"), "in another region"),
    ],
)
def test_a_store_that_refuses(opened, store, answer, sentence) -> None:
    store.status = answer
    status, text = opened()
    assert (status, sentence in text) == ("StorageError", True), text


def test_a_user_who_may_not_delete(opened, store) -> None:
    store.refuses = lambda method, path: method == "DELETE" or "?delete" in path
    status, text = opened()
    store.refuses = lambda method, path: False
    assert status == "failed"
    assert "do not allow this" in text
    assert "s3:DeleteObject" in text


def test_a_store_that_ignores_the_condition_is_refused_before_the_first_commit(
    opened, store
) -> None:
    store.without = frozenset({"if-none-match"})
    store.reset()
    status, text = opened("s3a://lake/elsewhere")
    assert status == "failed"
    assert "this store ignores the condition `If-None-Match`" in text
    assert not [path for path in store.paths if path.startswith("PUT") and "_delta_log" in path]
    single = {
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
    }
    status, text = opened("s3a://lake/elsewhere", **single)
    assert (status, text) == ("completed", "None")


def test_a_profile_file_and_keys_in_settings_are_enough(opened, tmp_path) -> None:
    (tmp_path / ".aws").mkdir()
    lines = f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / ".aws" / "credentials").write_text(lines)
    options = os.environ.get("JAVA_TOOL_OPTIONS", "")
    home = {"HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": f"{options} -Duser.home={tmp_path}"}
    assert opened(environment=home) == ("completed", "None")
    keys = {"spark.hadoop.fs.s3a.access.key": KEY, "spark.hadoop.fs.s3a.secret.key": SECRET}
    assert opened(environment={"HOME": str(tmp_path / "other")}, **keys)[0] == "completed"
