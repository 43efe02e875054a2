"""What a table remembers of applications that write it: the last batch of each (`txn` actions)."""

from delta_pipelines.delta.jvm.bridge import JavaObject, items, optional


def last_txn_version(txn: JavaObject, snapshot: JavaObject, application: str) -> int:
    """The last batch of an application; a concurrent one conflicts with the transaction from now.

    Args:
        txn: Delta's transaction.
        snapshot: What it is based on.
        application: Who writes.

    Returns:
        -1 for none.
    """
    known = _listed(snapshot, application)
    if known is None:
        return int(txn.txnVersion(application))
    # The list beside the log saves the job that replays the log; that the transaction depends on it
    # has to be noted all the same.
    txn.readTxn().addOne(application)
    return known


def remembers(snapshot: JavaObject, application: str, number: int) -> bool:
    """True when a table knows of that batch already, or of a later one; for a look beforehand.

    Args:
        snapshot: The table's; where it has no list of marks beside the log, the log is replayed.
        application: Who writes.
        number: Which of its batches.
    """
    known = _listed(snapshot, application)
    if known is None:
        transactions = snapshot.transactions()
        known = int(transactions.apply(application)) if transactions.contains(application) else -1
    return known >= number


def _listed(snapshot: JavaObject, application: str) -> int | None:
    checksum = optional(snapshot.checksumOpt())
    transactions = None if checksum is None else optional(checksum.setTransactions())
    if transactions is None:
        return None
    return next((int(m.version()) for m in items(transactions) if m.appId() == application), -1)
