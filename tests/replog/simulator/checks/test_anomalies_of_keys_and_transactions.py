"""Anomalies of compacted topics and of transactions, each by hand and nearly (CL-5, LG-9)."""

import pytest

from replog.simulator.history import Drained, Outcome, Transaction
from tests.replog.simulator.checks.story import TP, Story

# stale-key


def _keyed(story: Story, *, tombstone: bool = False, told: bool = True) -> None:
    """Records 0 and 2 of one key and 1 of another; the last reader finds 0 and 1."""
    story.history.compacted["t"] = None
    story.sent(0, 0, key=b"a")
    story.sent(1, 1, key=b"b")
    story.sent(2, 2 if told else None, key=b"a", tombstone=tombstone)
    story.drained([0, 1], end=3)


def test_stale_key_is_an_older_record_of_a_key_whose_latest_is_gone(story):
    _keyed(story)
    assert story.anomalies == ["stale-key"]


@pytest.mark.parametrize("excuse", ["a tombstone", "not known", "deleted", "unclean", "a tombstone came behind it"])
def test_stale_key_nearly(excuse, story):
    _keyed(story, tombstone=excuse == "a tombstone", told=excuse != "not known")
    if excuse == "deleted":
        story.deleted(3)
    if excuse == "unclean":
        story.history.unclean[TP] = None
    if excuse == "a tombstone came behind it":
        story.sent(3, key=b"a", tombstone=True).outcome = Outcome.UNKNOWN
    assert story.anomalies == []


# aborted-read, and the holes that transactions leave


def _transaction(story: Story, committed: bool | None) -> Transaction:
    """Record 0 is of it, 1 is none's, its marker at 2, record 3 none's."""
    story.history.transactional["t"] = None
    transaction = Transaction(committed, 2.5)
    story.sent(0, 0 if committed else None, transaction=transaction)
    story.sent(1, 1)
    story.sent(3, 3)
    return transaction


def test_aborted_read_is_a_record_of_an_aborted_transaction(story):
    _transaction(story, committed=False)
    story.polled((0, 0), (1, 1), committed=True)
    assert story.anomalies == ["aborted-read"]


def test_aborted_read_is_a_record_of_a_transaction_that_is_decided_later(story):
    _transaction(story, committed=True).decided_s = 1e9
    story.polled((0, 0), (1, 1), committed=True)
    assert story.anomalies == ["aborted-read"]


def test_aborted_read_nearly(story):
    _transaction(story, committed=False)
    story.polled((0, 0), (1, 1), (3, 3))
    story.seek("consumer-2")
    story.polled((1, 1), (3, 3), client="consumer-2", committed=True)
    story.drained([0, 1, 3])
    story.history.drained_committed[TP] = Drained(TP, 0, 4, ((1, b"1"), (3, b"3")))
    assert story.anomalies == []


def test_unseen_is_a_record_of_a_committed_transaction_that_is_not_there(story):
    _transaction(story, committed=True)
    story.drained([0, 1, 3])
    story.history.drained_committed[TP] = Drained(TP, 0, 4, ((1, b"1"), (3, b"3")))
    assert story.anomalies == ["unseen"]


def test_poll_skip_is_a_record_among_transactions_that_a_reader_passed_over(story):
    _transaction(story, committed=True)
    story.polled((0, 0), (3, 3), committed=True)
    story.polled((1, 1), client="consumer-2")
    assert story.anomalies == ["int-poll-skip"]
