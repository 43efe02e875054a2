"""A session's configuration: local defaults, the user's settings, the catalog's place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session import spark_config
from delta_pipelines.session.config import (
    CATALOG,
    CONNECTION_URL,
    EXTENSION,
    JAVA_OPTIONS,
    delta_problem,
    derby_database,
    warehouse_location,
)

EXTENSIONS = "spark.sql.extensions"


def test_the_catalog_and_its_log_stand_in_the_warehouse(tmp_path: Path) -> None:
    config = spark_config(tmp_path)
    metastore = tmp_path / "_metastore"
    assert config["spark.sql.warehouse.dir"] == str(tmp_path)
    assert config[CONNECTION_URL] == f"jdbc:derby:;databaseName={metastore}/derby;create=true"
    assert f'"-Dderby.stream.error.file={metastore}/derby.log"' in config[JAVA_OPTIONS]
    assert derby_database(config) == metastore / "derby"
    assert not metastore.exists()


def test_the_defaults_suit_one_machine(tmp_path: Path) -> None:
    config = spark_config(tmp_path)
    assert config["spark.master"] == "local[*]"
    assert config["spark.sql.shuffle.partitions"] == "8"
    assert config["spark.databricks.delta.snapshotPartitions"] == "2"
    assert config["spark.ui.showConsoleProgress"] == "false"
    assert config["spark.pyspark.python"] == sys.executable
    assert config[EXTENSIONS] == EXTENSION
    assert config["spark.sql.catalog.spark_catalog"] == CATALOG
    assert "spark.sql.session.timeZone" not in config
    assert "spark.sql.sources.default" not in config


def test_the_users_settings_win(tmp_path: Path) -> None:
    extra = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "3", "spark.x": "y"}
    config = spark_config(tmp_path, extra=extra)
    assert extra.items() <= config.items()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("com.acme.Own", f"com.acme.Own,{EXTENSION}"),
        (EXTENSION, EXTENSION),
        (f"{EXTENSION}, com.acme.Own", f"{EXTENSION},com.acme.Own"),
        ("", EXTENSION),
    ],
)
def test_the_users_extensions_stay(given: str, expected: str) -> None:
    assert spark_config("w", extra={EXTENSIONS: given})[EXTENSIONS] == expected


def test_the_users_java_options_come_last_and_so_win(tmp_path: Path) -> None:
    own = "-Xss8m -Dderby.stream.error.file=/elsewhere"
    options = spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS]
    assert options.endswith(f" {own}")
    assert "-Dderby.system.home=" in options


def test_the_users_log_settings_replace_ours(tmp_path: Path) -> None:
    assert "session_log4j2" in spark_config(tmp_path)[JAVA_OPTIONS]
    own = "-Dlog4j2.configurationFile=/own.properties"
    assert "session_log4j2" not in spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS]


def test_a_cluster_keeps_its_addresses() -> None:
    assert spark_config("w")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in spark_config("w", extra={"spark.master": "spark://a:7077"})


@pytest.mark.parametrize("master", ["spark://a:7077", "yarn", "k8s://https://a:6443"])
def test_a_cluster_keeps_its_own_rules(master: str) -> None:
    config = spark_config("w", extra={"spark.master": master})
    ours = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
    assert not {*ours, "spark.pyspark.python", "spark.pyspark.driver.python"} & config.keys()
    assert not any(key.startswith("spark.executor") for key in config)


@pytest.mark.parametrize(
    "extra",
    [
        {"spark.sql.catalogImplementation": "in-memory"},
        {CONNECTION_URL: "jdbc:postgresql://db/metastore"},
        {CONNECTION_URL: "jdbc:derby://db:1527/metastore"},
    ],
)
def test_a_catalog_that_is_not_embedded_needs_no_lock(extra: dict[str, str]) -> None:
    config = spark_config("s3a://bucket/warehouse", extra=extra)
    assert derby_database(config) is None
    assert "derby." not in config[JAVA_OPTIONS]
    assert config["spark.sql.warehouse.dir"] == "s3a://bucket/warehouse"


@pytest.mark.parametrize(
    "url", ["jdbc:derby:/data/db;create=true", "jdbc:derby:;create=true;databaseName=/data/db"]
)
def test_an_embedded_catalog_elsewhere_is_found(url: str) -> None:
    config = spark_config("w", extra={CONNECTION_URL: url})
    assert derby_database(config) == Path("/data/db")


def test_an_embedded_catalog_in_a_remote_warehouse_is_refused() -> None:
    with pytest.raises(SessionError, match=r"s3a://bucket/warehouse.*ConnectionURL"):
        spark_config("s3a://bucket/warehouse")


@pytest.mark.parametrize("folder", ["/data/a;b", '/data/a"b'])
def test_a_path_that_derby_cannot_take_is_refused(folder: str) -> None:
    with pytest.raises(SessionError, match="choose another folder"):
        spark_config(folder)


def test_a_warehouse_is_one_place_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "my tables")
    assert warehouse_location("./my tables") == place
    assert warehouse_location("x/../my tables/") == place
    assert warehouse_location((tmp_path / "my tables").as_uri()) == place


def test_loading_the_session_module_loads_no_pyspark() -> None:
    code = "import sys, delta_pipelines.session.session; print('pyspark' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    assert answer.stdout.strip() == b"False"


@pytest.mark.parametrize("extensions", [EXTENSION, f"com.acme.Own, {EXTENSION}"])
def test_a_session_with_delta_has_no_problem(extensions: str) -> None:
    assert delta_problem(extensions=extensions, catalog=CATALOG) is None


@pytest.mark.parametrize(
    ("extensions", "catalog", "named"),
    [
        ("", CATALOG, [EXTENSIONS, EXTENSION]),
        (f"{EXTENSION}Not", CATALOG, [EXTENSIONS, EXTENSION]),
        (EXTENSION, "", ["`spark.sql.catalog.spark_catalog`", CATALOG]),
        (EXTENSION, "com.acme.C", [CATALOG, "it is `com.acme.C`"]),
        ("", "", [EXTENSION, CATALOG, "get_session"]),
    ],
)
def test_a_session_without_delta_is_refused_with_the_missing_setting(
    extensions: str, catalog: str, named: list[str]
) -> None:
    problem = delta_problem(extensions=extensions, catalog=catalog)
    assert problem is not None
    assert all(name in problem for name in named)


@pytest.mark.parametrize("path", ["~no such user/w", "a\0b"])
def test_a_warehouse_that_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(SessionError, match=r"is not the path of a folder.*Give an absolute path"):
        warehouse_location(path)


def test_a_session_without_a_home_is_refused_with_a_folder_for_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(SessionError, match=r"no home folder: set HOME, .*`spark\.jars\.ivy`"):
        spark_config(tmp_path)
    assert spark_config(tmp_path, extra={"spark.jars.ivy": str(tmp_path)})
