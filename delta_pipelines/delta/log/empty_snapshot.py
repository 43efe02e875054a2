"""The state that a table has before its first commit, with the list of its files: an empty one."""

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.log.snapshots import OpenLog

_DELTA = "org.apache.spark.sql.delta"


def no_table(jvm: Jvm, opened: OpenLog) -> JavaObject:
    """Make the `Snapshot` of a table that does not exist, for the transaction that creates it.

    Delta's own knows no files either, but finds that out by queries: when the transaction reads
    them, and when it writes the checksum of the first version, which lists them. In a JVM that has
    just started they took a sixth of the time of a run that makes ten small tables. So the list
    goes where later versions have it, into the checksum. (Outside UTC Delta checks the list of the
    first version by a query of its own, which stays.)

    Args:
        jvm: The session's JVM.
        opened: The table's log, which has no commit.
    """
    snapshot = jvm.type(f"{_DELTA}.DummySnapshot")(opened.log.logPath(), opened.log)
    checksum = snapshot.computeChecksum()
    # Scala's `val`s, of objects that nobody else has yet.
    files = jvm.private_field(f"{_DELTA}.VersionChecksum", "allFiles")
    files.set(checksum, jvm.some(jvm.sequence([])))
    jvm.private_field(f"{_DELTA}.Snapshot", "checksumOpt").set(snapshot, jvm.some(checksum))
    return snapshot
