"""What a table remembers of applications that write it: the last batch of each (`txn` actions)."""

from delta_pipelines.delta.jvm import JavaObject, items, optional


def last_mark(txn: JavaObject, snapshot: JavaObject, application: str) -> int:
    """The last batch of an application; a concurrent one conflicts with the transaction from now.

    Args:
        txn: Delta's transaction.
        snapshot: What it is based on.
        application: Who writes.

    Returns:
        -1 for none.
    """
    checksum = optional(snapshot.checksumOpt())
    marks = None if checksum is None else optional(checksum.setTransactions())
    if marks is None:
        return int(txn.txnVersion(application))
    # The list beside the log saves the job that replays the log; that the transaction depends on it
    # has to be noted all the same.
    txn.readTxn().addOne(application)
    return next((int(m.version()) for m in items(marks) if m.appId() == application), -1)
