"""The session that benchmarks share: as users have it, in a warehouse of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from delta_pipelines.session import get_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def warm_session(**config: str) -> "Iterator[tuple[SparkSession, Path]]":
    """A session with the package's own defaults, and its folder; both go at the end.

    Args:
        **config: More Spark settings; `__` stands for a dot.
    """
    with tempfile.TemporaryDirectory(prefix="delta-pipelines-benchmark-") as folder:
        settings = {key.replace("__", "."): value for key, value in config.items()}
        spark = get_session(
            Path(folder) / "warehouse", config={"spark.ui.enabled": "false", **settings}
        )
        try:
            yield spark, Path(folder)
        finally:
            spark.stop()
