"""Processes that start on a new machine at once, where Ivy has no jar yet."""

from pathlib import Path

from delta_pipelines_tests.support.spark_workers import Worker


def test_two_first_starts_at_once_both_get_their_jars(tmp_path: Path, process_settings):
    settings = {**process_settings, "spark.jars.ivy": str(tmp_path / "ivy")}
    names = ("first", "second")
    workers = [Worker(tmp_path / name, "import delta_pipelines as dp", {}) for name in names]
    try:
        for name, worker in zip(names, workers, strict=True):
            warehouse = str(tmp_path / f"{name} warehouse")
            worker.start(
                f"spark = dp.get_session({warehouse!r}, config={settings!r}); "
                "answer = spark.range(3).count()"
            )
        assert [worker.answer() for worker in workers] == [3, 3]
    finally:
        for worker in workers:
            worker.end()
    assert list((tmp_path / "ivy" / "jars").glob("io.delta_delta-spark*.jar"))
