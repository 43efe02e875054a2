"""The last batch of an application: by the list beside the log, or by replaying the log."""

from unittest.mock import MagicMock

import pytest

from delta_pipelines.delta.log.txn_versions import last_txn_version, remembers
from delta_pipelines.delta.merge.transaction import MergeTransaction


def option(value=None):
    return MagicMock(isDefined=lambda: value is not None, get=lambda: value)


def snapshot_with(versions):
    """A snapshot; its checksum lists these transactions, or None if it has no list."""
    listed = None
    if versions is not None:
        each = [MagicMock(appId=lambda a=a: a, version=lambda v=v: v) for a, v in versions.items()]
        listed = MagicMock(size=lambda: len(each), apply=each.__getitem__)
    checksum = MagicMock(setTransactions=lambda: option(listed))
    return MagicMock(checksumOpt=lambda: option(checksum))


@pytest.mark.parametrize(("application", "number"), [("ours", 7), ("new", -1)])
def test_the_list_beside_the_log_is_enough_and_the_transaction_notes_it(application, number):
    txn = MagicMock()
    assert last_txn_version(txn, snapshot_with({"others": 9, "ours": 7}), application) == number
    assert txn.txnVersion.call_count == 0
    txn.readTxn.return_value.addOne.assert_called_once_with(application)


def test_without_a_list_delta_replays_the_log():
    txn = MagicMock()
    txn.txnVersion.return_value = 3
    assert last_txn_version(txn, snapshot_with(None), "ours") == 3
    assert last_txn_version(txn, MagicMock(checksumOpt=lambda: option()), "ours") == 3


@pytest.mark.parametrize(("number", "is_new"), [(7, False), (8, True)])
def test_a_merge_asks_the_list_too(number, is_new):
    transaction = MergeTransaction(MagicMock(), MagicMock())
    transaction._txn.snapshot.return_value = snapshot_with({"ours": 7})
    assert transaction.remember("ours", number) is is_new
    assert transaction._txn.txnVersion.call_count == 0


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("number", "known"), [(7, True), (6, True), (8, False)])
def test_a_look_beforehand_takes_the_list_or_the_log(listed, number, known):
    snapshot = snapshot_with({"ours": 7} if listed else None)
    versions = snapshot.transactions.return_value
    versions.contains, versions.apply = {"ours": 7}.__contains__, {"ours": 7}.__getitem__
    assert remembers(snapshot, "ours", number) is known
    assert not remembers(snapshot, "new", number)
    assert snapshot.transactions.called is not listed
