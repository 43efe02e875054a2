"""The pipeline that `delta-pipelines warm-up` runs in its own process, to archive its classes."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.driver_jvm import end_jvm
from delta_pipelines.model.declarations import Stream
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.session.config import JAVA_OPTIONS
from delta_pipelines.session.session import get_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a short-lived JVM; the archive also fits JVMs with another collector or compiler."""
_PATIENCE = 600.0
"""Seconds that the JVM has at its end to write the archive."""


def warm_up(folder: Path, archive: Path, config: Mapping[str, str]) -> None:
    """Run each kind of dataset once and end the JVM, which then writes the archive.

    Args:
        folder: Folder for the tables; the caller removes it.
        archive: The file to write.
        config: Further Spark settings.

    Example:
        >>> warm_up(Path("scratch"), Path("classes.jsa"), {})  # doctest: +SKIP
    """
    options = f'"-XX:ArchiveClassesAtExit={archive}" {_QUICK}'
    spark = get_session(folder / "warehouse", config={**config, JAVA_OPTIONS: options})
    pipeline = Pipeline("warm_up", schema="warm_up")
    pipeline.materialized_view("numbers", "SELECT id, id * 2 AS twice, 'a' AS text FROM range(9)")
    pipeline.materialized_view("sums", "SELECT text, sum(id) AS total FROM numbers GROUP BY text")
    pipeline.upsert(
        "latest", "SELECT id, max(twice) AS twice FROM numbers GROUP BY id", keys=["id"]
    )
    skipping = {"numbers": Stream("numbers", skip_change_commits=True)}

    @pipeline.streaming_table(inputs=skipping)
    def stream(numbers: "DataFrame") -> "DataFrame":
        return numbers

    for force in (False, True):
        result = pipeline.run(spark, force=force)
        if not result.success:
            raise SystemExit(str(result))
    end_jvm(_PATIENCE)


if __name__ == "__main__":
    warm_up(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
