"""Snapshot of a table before its first commit, with an empty list of files."""

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.log.snapshots import OpenLog

_DELTA = "org.apache.spark.sql.delta"


def no_table(jvm: Jvm, opened: OpenLog) -> JavaObject:
    """Make the `Snapshot` for the transaction that creates a table.

    Delta's own snapshot finds out by queries that it has no files: when the transaction reads them,
    and when it writes the checksum of the first version, which lists them. In a new JVM these
    queries took a sixth of the time of a run that creates ten small tables. So the empty list is
    put into the checksum, where later versions have theirs. (Outside UTC Delta checks the list of
    the first version with another query, which stays.)

    Args:
        opened: The table's log, which has no commit.
    """
    snapshot = jvm.type(f"{_DELTA}.DummySnapshot")(opened.log.logPath(), opened.log)
    checksum = snapshot.computeChecksum()
    # These are Scala `val`s, but no other code has these objects yet.
    files = jvm.private_field(f"{_DELTA}.VersionChecksum", "allFiles")
    files.set(checksum, jvm.some(jvm.sequence([])))
    jvm.private_field(f"{_DELTA}.Snapshot", "checksumOpt").set(snapshot, jvm.some(checksum))
    return snapshot
