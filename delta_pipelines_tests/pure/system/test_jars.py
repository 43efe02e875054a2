"""Cached jars are handed over as files; else only Delta's own are downloaded."""

import zipfile
from pathlib import Path

from delta_pipelines.system.jars import (
    DELTA,
    DELTA_JARS,
    SHIPPED_BY_SPARK,
    UNUSED_BY_DELTA,
    cached_jars,
    jar_settings,
)

JARS, PACKAGES, EXCLUDES = "spark.jars", "spark.jars.packages", "spark.jars.excludes"


def test_an_empty_cache_downloads_delta_without_what_spark_ships(tmp_path: Path) -> None:
    settings = jar_settings({"spark.jars.ivy": str(tmp_path)})
    assert settings[PACKAGES] == DELTA.coordinates
    assert settings["spark.jars.ivy"] == str(tmp_path)
    assert set(settings[EXCLUDES].split(",")) == {*SHIPPED_BY_SPARK, *UNUSED_BY_DELTA}
    assert JARS not in settings


def test_a_full_cache_hands_the_four_jars_over(tmp_path: Path) -> None:
    expected = fill_cache(tmp_path)
    settings = jar_settings({"spark.jars.ivy": str(tmp_path)})
    assert settings == {JARS: ",".join(map(str, expected))}
    assert len(expected) == 4


def test_a_missing_jar_means_no_cache(tmp_path: Path) -> None:
    fill_cache(tmp_path)[2].unlink()
    assert cached_jars(tmp_path) is None
    assert PACKAGES in jar_settings({"spark.jars.ivy": str(tmp_path)})


def test_a_jar_that_was_cut_off_means_no_cache(tmp_path: Path) -> None:
    jar = fill_cache(tmp_path)[1]
    jar.write_bytes(jar.read_bytes()[:-10])
    assert cached_jars(tmp_path) is None


def test_the_users_jars_come_first_and_stay(tmp_path: Path) -> None:
    cached = fill_cache(tmp_path)
    settings = jar_settings({JARS: "a.jar, b.jar", "spark.jars.ivy": str(tmp_path)})
    assert settings[JARS].split(",") == ["a.jar", "b.jar", *map(str, cached)]


def test_the_users_packages_are_downloaded_with_delta_and_lose_nothing(tmp_path: Path) -> None:
    extra = {PACKAGES: "g:m:1", EXCLUDES: "x:y", "spark.jars.ivy": str(tmp_path)}
    settings = jar_settings(extra)
    assert settings[PACKAGES].split(",") == ["g:m:1", DELTA.coordinates]
    assert settings[EXCLUDES].split(",") == ["x:y", *SHIPPED_BY_SPARK]


def test_the_users_packages_are_left_alone_when_delta_is_cached(tmp_path: Path) -> None:
    fill_cache(tmp_path)
    settings = jar_settings({PACKAGES: "g:m:1", "spark.jars.ivy": str(tmp_path)})
    assert list(settings) == [JARS]


def test_a_delta_that_the_user_brings_is_the_one_used() -> None:
    assert jar_settings({PACKAGES: "io.delta:delta-spark_4.2_2.13:4.4.0"}) == {}
    assert jar_settings({JARS: "/opt/delta-spark_4.2_2.13-4.4.0.jar"}) == {}


def test_every_excluded_jar_is_shipped_by_this_pyspark() -> None:
    import pyspark

    shipped = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    for module in (entry.split(":")[1] for entry in SHIPPED_BY_SPARK):
        assert any(name.startswith(f"{module}-") for name in shipped), module


def fill_cache(ivy_home: Path) -> list[Path]:
    paths = [ivy_home / "jars" / jar.file_name for jar in DELTA_JARS]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return paths
