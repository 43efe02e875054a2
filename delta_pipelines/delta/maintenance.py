"""OPTIMIZE, REORG and VACUUM of one table."""

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.sessions import isolated_session, settings_of
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.setting_names import USER_METADATA

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""VACUUM lists a table in this many tasks. The default, 10,000, takes a laptop a minute."""


class TableUpkeep:
    """Maintenance commands for one table; each returns what it did.

    Delta's check of the retention time stays on: the table's `delta.deletedFileRetentionDuration`
    (a week by default) decides what VACUUM may delete.

    Args:
        spark: A classic session; the commands run in a copy of it.
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
        """Combine small files.

        Returns:
            How many files were replaced; 0 if there was nothing to do, and then no commit.

        Raises:
            DatasetError: The command failed; transient if another writer committed first.
        """
        return self._rewritten(f"OPTIMIZE {self._table.quoted}")

    def purge(self) -> int:
        """Rewrite files to remove deleted rows; returns and raises as `optimize` does."""
        return self._rewritten(f"REORG TABLE {self._table.quoted} APPLY (PURGE)")

    def vacuum(self) -> int:
        """Delete files that no version within the retention time needs.

        VACUUM reports the number of deleted files only in its two commits. On some file systems it
        does not report it at all, and it commits even if there was nothing to delete. So a dry run
        counts the files first, and nothing is written if there are none.

        Returns:
            How many files and empty folders were deleted.

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
