"""PostgreSQL as the catalog: its address, its settings without the password, its errors."""

import socket
from pathlib import Path

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session.config import CONNECTION_URL, derby_database, spark_config
from delta_pipelines.system.jars import DELTA, jar_settings
from delta_pipelines.system.postgres_catalog import (
    DRIVER_JAR,
    DRIVER_JARS,
    PASSWORD_VARIABLES,
    CatalogServerError,
    PostgresCatalog,
    check_reachable,
    connection_problem,
)

SECRET = "p@ss/w:rd"
CATALOG = PostgresCatalog("db", "metastore", "etl", SECRET)


@pytest.mark.parametrize(
    ("address", "catalog"),
    [
        ("postgresql://etl@db/metastore", PostgresCatalog("db", "metastore", "etl")),
        ("postgres://etl:p%40ss%2Fw%3Ard@db:5432/metastore", CATALOG),
        ("postgresql://a%40b@[::1]:6543/m%20x", PostgresCatalog("::1", "m x", "a@b", port=6543)),
        (
            "postgresql://etl@db/m?sslmode=require&ssl=true",
            PostgresCatalog("db", "m", "etl", options={"sslmode": "require", "ssl": "true"}),
        ),
        (CATALOG, CATALOG),
    ],
)
def test_an_address_is_read_as_it_is_meant(address, catalog) -> None:
    assert PostgresCatalog.of(address) == catalog


@pytest.mark.parametrize(
    "address",
    [
        "",
        "metastore",
        f"mysql://etl:{SECRET}@db/m",
        "postgresql://db/m",
        "postgresql://etl@db",
        "postgresql://etl@db/a/b",
        "postgresql://etl@db:port/m",
        "postgresql://etl@db/m?password=p%40ss",
        "postgresql://etl@db/m?user=other",
        "postgresql://etl@/m",
    ],
)
def test_a_wrong_address_is_refused_and_not_repeated(address) -> None:
    with pytest.raises(SessionError, match="postgresql://user@host:port/database") as caught:
        PostgresCatalog.of(address)
    assert "p@ss" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_password_is_in_no_text_and_no_setting(tmp_path: Path) -> None:
    config = spark_config(tmp_path, catalog=CATALOG)
    for text in (repr(CATALOG), str(CATALOG), CATALOG.url, CATALOG.jdbc_url, str(config)):
        assert SECRET not in text
        assert "p%40ss" not in text
    said = f"FATAL: tried {SECRET}\n at org.postgresql"
    for state in ("28P01", "3D000", "08001", "42501", "XX000", None):
        assert SECRET not in connection_problem(CATALOG, state, said)
        assert "org.postgresql" not in connection_problem(CATALOG, state, said)


def test_the_password_comes_from_the_address_else_from_the_environment() -> None:
    ours, usual = PASSWORD_VARIABLES
    open_ = PostgresCatalog("db", "m", "etl")
    assert CATALOG.secret({ours: "other"}) == SECRET
    assert open_.secret({ours: "a", usual: "b"}) == "a"
    assert open_.secret({ours: "", usual: "b"}) == "b"
    assert open_.secret({}) is None


def test_a_session_on_postgres_has_no_derby_and_no_lock(tmp_path: Path) -> None:
    config = spark_config(tmp_path, catalog=CATALOG)
    assert config[CONNECTION_URL] == "jdbc:postgresql://db:5432/metastore?connectTimeout=10"
    assert config["spark.hadoop.javax.jdo.option.ConnectionUserName"] == "etl"
    assert derby_database(config) is None
    assert "derby" not in str(config)
    assert "postgresql" in config.get("spark.jars", "") + config.get("spark.jars.packages", "")


def test_a_remote_warehouse_may_have_its_catalog_on_postgres() -> None:
    config = spark_config("s3a://bucket/warehouse", catalog=CATALOG)
    assert config["spark.sql.warehouse.dir"] == "s3a://bucket/warehouse"


def test_the_driver_is_downloaded_with_delta_once(tmp_path: Path) -> None:
    sets = [DRIVER_JARS]
    empty = {"spark.jars.ivy": str(tmp_path)}
    settings = jar_settings(empty, sets)
    assert settings["spark.jars.packages"].split(",") == [DRIVER_JAR.coordinates, DELTA.coordinates]
    assert DRIVER_JARS.excludes[0] in settings["spark.jars.excludes"]
    own = jar_settings({"spark.jars": "lib/postgresql-42.7.9.jar", **empty}, sets)
    assert own["spark.jars.packages"] == DELTA.coordinates
    with_delta = {"spark.jars.packages": DELTA.coordinates}
    added = jar_settings(with_delta, sets)
    assert added["spark.jars.packages"] == f"{DELTA.coordinates},{DRIVER_JAR.coordinates}"


def test_a_missing_server_is_reported_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    unreachable = PostgresCatalog("127.0.0.1", "m", "etl", port=port)
    with pytest.raises(CatalogServerError, match=r"cannot be reached .*: start it") as caught:
        check_reachable(unreachable)
    assert caught.value.transient


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("28P01", "rejects the user etl: check the name and the password"),
        ("08004", "rejects the user etl"),
        ("3D000", "has no database metastore: create it"),
        ("08006", "cannot be reached"),
        ("42501", "may not create tables"),
        ("XX000", "cannot be opened: it broke"),
    ],
)
def test_every_refusal_says_what_to_do(state, message) -> None:
    assert message in connection_problem(CATALOG, state, "it broke.")
