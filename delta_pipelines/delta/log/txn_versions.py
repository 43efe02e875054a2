"""Last batch of each application that writes a table (Delta's `txn` actions)."""

from delta_pipelines.delta.jvm.bridge import JavaObject, items, optional


def last_txn_version(txn: JavaObject, snapshot: JavaObject, application: str) -> int:
    """Return an application's last batch; a concurrent batch conflicts from now on.

    Args:
        application: Id of the writing application.

    Returns:
        -1 if there is none.
    """
    known = _listed(snapshot, application)
    if known is None:
        return int(txn.txnVersion(application))
    # The list next to the log saves the job that replays the log. But the transaction must still
    # record that it depends on this application.
    txn.readTxn().addOne(application)
    return known


def remembers(snapshot: JavaObject, application: str, number: int) -> bool:
    """Say whether a table has a batch, or a later one; without a transaction.

    Args:
        snapshot: The table's snapshot; the log is replayed if there is no list next to it.
        application: Id of the writing application.
        number: The batch.
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
