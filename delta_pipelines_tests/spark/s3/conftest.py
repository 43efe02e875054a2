"""An S3 server, a catalog on PostgreSQL, and processes with a Spark of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from delta_pipelines_tests.support.postgres_server import PASSWORD, PostgresServer, postgres_server
from delta_pipelines_tests.support.s3_server import (
    BUCKET,
    CREDENTIALS,
    Proxy,
    moto_server,
    proxy,
    settings_for,
)
from delta_pipelines_tests.support.spark_workers import Worker

PREAMBLE = """
import json, os, re, signal, time
from pathlib import Path
import delta_pipelines as dp
from delta_pipelines.delta.storage.hadoop_lease_files import lease_files
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.support.pipelines import (
    Feed, merged, mirror, once_at, rows_of, run_one, scratch, seen, tables_of,
)
from delta_pipelines_tests.support.refresh_rounds import TABLES, Writer
"""
WAREHOUSE = f"s3a://{BUCKET}/warehouse"
Start = Callable[..., Worker]


@pytest.fixture(scope="module")
def catalog() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture(scope="module")
def store() -> Iterator[Proxy]:
    """A proxy in front of moto."""
    with moto_server() as port, proxy(port) as started:
        yield started


@pytest.fixture(scope="module")
def start(
    catalog: PostgresServer,
    store: Proxy,
    tmp_path_factory: pytest.TempPathFactory,
    process_settings: dict[str, str],
) -> Iterator[Start]:
    """Starts a process with a session over the warehouse on S3: `start("name")`.

    Its code has the names `spark`, and `catalog` and `settings` of the session.
    """
    folder = tmp_path_factory.mktemp("processes")
    secret = {"DELTA_PIPELINES_CATALOG_PASSWORD": PASSWORD, **CREDENTIALS}
    made: list[Worker] = []

    def started(name: str, *, port: int | None = None, warehouse: str = WAREHOUSE) -> Worker:
        settings = process_settings | settings_for(port or store.port)
        worker = Worker(Path(folder / name), PREAMBLE, secret)
        made.append(worker)
        worker.start(
            f"catalog, settings = {catalog.url!r}, {settings!r}\n"
            f"spark = dp.get_session({warehouse!r}, catalog=catalog, config=settings)\n"
            "answer = 'open'"
        )
        return worker

    try:
        yield started
    finally:
        for worker in made:
            worker.end()
