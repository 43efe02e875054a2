"""The jars and settings of a session with S3: found by themselves, and the user's win."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session import spark_config
from delta_pipelines.session.s3 import log_store
from delta_pipelines.session.s3.log_store import LOG_STORE, log_store_jar
from delta_pipelines.session.s3.settings import LOG_STORE_SETTING
from delta_pipelines.system.jars import DELTA_JARS
from delta_pipelines.system.s3_jars import HADOOP_VERSION, S3_JARS, spark_folder, spark_has_s3

WAREHOUSE = "s3a://bucket/warehouse"
IN_MEMORY = {"spark.sql.catalogImplementation": "in-memory"}
PACKAGES, JARS = "spark.jars.packages", "spark.jars"


def config(ivy: Path, warehouse: str = WAREHOUSE, **more: str) -> dict[str, str]:
    return spark_config(warehouse, extra={**IN_MEMORY, "spark.jars.ivy": str(ivy), **more})


def fill(ivy: Path) -> None:
    for jar in (*DELTA_JARS, *S3_JARS.jars):
        path = ivy / "jars" / jar.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", "b")


def test_the_client_is_of_the_hadoop_that_pyspark_ships() -> None:
    assert (spark_folder() / "jars" / f"hadoop-client-api-{HADOOP_VERSION}.jar").is_file()
    assert not spark_has_s3()


def test_a_warehouse_on_s3_downloads_the_modules_and_not_the_bundle(tmp_path: Path) -> None:
    made = config(tmp_path)
    roots = [jar.coordinates for jar in S3_JARS.roots]
    assert made[PACKAGES].split(",")[: len(roots)] == roots
    assert "software.amazon.awssdk:bundle" in made["spark.jars.excludes"].split(",")
    assert made[JARS].split(",") == [str(log_store_jar())]
    assert made[LOG_STORE_SETTING] == LOG_STORE


def test_cached_jars_are_files(tmp_path: Path) -> None:
    fill(tmp_path)
    made = config(tmp_path)
    assert PACKAGES not in made
    assert len(made[JARS].split(",")) == len(DELTA_JARS) + len(S3_JARS.jars) + 1


@pytest.mark.parametrize(
    ("warehouse", "more", "has"),
    [
        ("/data/warehouse", {}, False),
        ("/data/warehouse", {"spark.hadoop.fs.s3a.endpoint": "http://store"}, True),
        (WAREHOUSE, {}, True),
    ],
)
def test_only_a_session_with_s3_has_them(tmp_path, warehouse, more, has) -> None:
    made = config(tmp_path, warehouse, **more)
    assert ("hadoop-aws" in made.get(PACKAGES, "")) == has
    assert (LOG_STORE_SETTING in made) == has


@pytest.mark.parametrize("more", [{}, {"spark.hadoop.fs.s3a.endpoint": "http://store"}])
def test_another_scheme_of_s3_is_refused_with_the_right_one(tmp_path: Path, more) -> None:
    with pytest.raises(SessionError, match=r"write s3a://bucket/warehouse\.$"):
        config(tmp_path, "s3://bucket/warehouse", **more)
    own = {"spark.hadoop.fs.s3.impl": "com.example.FileSystem"}
    assert config(tmp_path, "s3://bucket/warehouse", **own)


def test_the_users_client_and_log_store_win(tmp_path: Path) -> None:
    single = "io.delta.storage.S3SingleDriverLogStore"
    more = {PACKAGES: "org.apache.hadoop:hadoop-aws:3.4.1", LOG_STORE_SETTING: single}
    made = config(tmp_path, **more)
    assert "awssdk" not in made[PACKAGES]
    assert made[LOG_STORE_SETTING] == single
    assert JARS not in made
    assert "spark.hadoop.fs.s3a.performance.flags" not in made


def test_the_log_store_is_compiled_once_and_not_trusted_if_others_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = log_store_jar()
    assert first.is_relative_to(tmp_path)
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == ["delta_pipelines/S3LogStore.class"]
    written = first.stat().st_mtime_ns
    assert log_store_jar() == first
    assert first.stat().st_mtime_ns == written
    first.chmod(first.stat().st_mode | stat.S_IWOTH)
    assert log_store_jar() == first
    assert first.stat().st_mtime_ns != written
    first.parent.chmod(0o777)
    elsewhere = log_store_jar()
    assert not elsewhere.is_relative_to(tmp_path)


def test_a_user_without_a_cache_folder_gets_one(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert zipfile.is_zipfile(log_store_jar())


def test_a_source_that_does_not_compile_says_so(tmp_path: Path, monkeypatch) -> None:
    wrong = tmp_path / "S3LogStore.java"
    wrong.write_text("package delta_pipelines; public class S3LogStore { int a = b; }")
    monkeypatch.setattr(log_store, "_SOURCE", wrong)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SessionError, match=r"was not compiled(.|\n)*S3SingleDriverLogStore"):
        log_store_jar()
    assert not list((tmp_path / "delta_pipelines").glob("*.jar"))
    assert os.listdir(tmp_path / "delta_pipelines") == []  # noqa: PTH208
