"""OPTIMIZE, REORG and VACUUM of one table."""

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import isolated_session, settings_of
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.setting_names import USER_METADATA

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""VACUUM lists a table in as many tasks as this says, 10,000 by default: a minute of empty tasks
on a laptop."""


class TableUpkeep:
    """The commands that keep one table healthy; each says itself what it did.

    Delta's own check of the retention time stays on: what VACUUM may delete is decided by the
    table's `delta.deletedFileRetentionDuration`, a week by default.

    Args:
        spark: A classic session; the commands run in a copy of it.
        table: A Delta table.
        dataset: Its declared name, for messages.
        user_metadata: For the commits.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: Identifier,
        *,
        dataset: str,
        user_metadata: Mapping[str, object],
    ) -> None:
        self._table = table
        self._dataset = dataset
        self._session = isolated_session(spark)
        self._session.conf.set(USER_METADATA, json.dumps(dict(user_metadata)))
        if _LISTING not in settings_of(self._session):
            tasks = 4 * self._session.sparkContext.defaultParallelism
            self._session.conf.set(_LISTING, str(tasks))

    def optimize(self) -> int:
        """Put small files together.

        Returns:
            How many files were replaced; 0 when there was nothing to do, and no commit.

        Raises:
            DatasetError: The command failed; transient when another writer was faster.
        """
        return self._rewritten(f"OPTIMIZE {self._table.quoted}")

    def purge(self) -> int:
        """Take all deleted rows out of the files; returns and raises as `optimize` does."""
        return self._rewritten(f"REORG TABLE {self._table.quoted} APPLY (PURGE)")

    def vacuum(self) -> int:
        """Delete files that no version within the retention time needs.

        VACUUM tells how many files it deleted only in the two commits that it makes, on some file
        systems and even when there was nothing to delete. So its dry run counts them, and nothing
        is written when there are none.

        Returns:
            How many files and emptied folders were deleted.

        Raises:
            DatasetError: The command failed.
        """
        with explained(self._dataset):
            found = self._session.sql(f"VACUUM {self._table.quoted} DRY RUN").count()
            if found:
                self._session.sql(f"VACUUM {self._table.quoted}").collect()
        return found

    def _rewritten(self, command: str) -> int:
        with explained(self._dataset):
            result = self._session.sql(command).first()
        assert result is not None
        metrics = result["metrics"]
        # Delta commits nothing when it added no file.
        return int(metrics["numFilesRemoved"]) if metrics["numFilesAdded"] else 0
