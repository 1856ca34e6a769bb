"""Reads of READ_COMMITTED consumers (LG-9), and transactions on followers."""

from pathlib import Path

import pytest

from replog.log.log import Log
from replog.log.offsets import AbortedTransaction, FetchData, Isolation
from tests.replog.log.batches import client_batch, open_log
from tests.replog.log.producers.writes import end, kept, produce, transact

SIZE = 69


def read(log: Log, offset: int, max_bytes: int = 10_000) -> FetchData:
    return log.read(offset, max_bytes, Isolation.TXN_COMMITTED, min_one_message=True)


def visible(data: FetchData, offset: int) -> list[int]:
    """Base offsets of the batches that a consumer hands out, by what the answer says is aborted."""
    return [batch.base_offset for _, batch in kept(data) if batch.last_offset >= offset]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Producer 1 from 0, aborted at 3; producer 2 from 1, open; plain ones at 2 and 4. HW 5."""
    log = open_log(tmp_path, index_interval_bytes=1)
    transact(log, 1, 0)
    transact(log, 2, 0)
    produce(log, client_batch(b"x"))
    end(log, 1, commit=False)
    produce(log, client_batch(b"x"))
    log.update_high_watermark(5)
    return log


def test_other_reads_name_no_aborted_transactions(log):
    """LG-9."""
    for isolation in (Isolation.HIGH_WATERMARK, Isolation.LOG_END):
        assert log.read(0, 10_000, isolation, min_one_message=True).aborted == ()


def test_lg_9_up_to_the_index_entry_behind_the_bytes(log):
    """LG-9, IX-12: transactions that begin behind it are not named."""
    end(log, 2, commit=True)
    for pid in (5, 6):
        for _ in range(4):
            produce(log, client_batch(b"x"))
        transact(log, pid, 0)
        end(log, pid, commit=False)
    log.update_high_watermark(log.log_end_offset)
    assert [transaction.first_offset for transaction in read(log, 0).aborted] == [0, 10, 16]
    assert [transaction.first_offset for transaction in read(log, 4, SIZE).aborted] == []
    assert [transaction.first_offset for transaction in read(log, 8, 2 * SIZE).aborted] == []
    assert [transaction.first_offset for transaction in read(log, 8, 3 * SIZE).aborted] == [10]
    assert [transaction.first_offset for transaction in read(log, 11).aborted] == [10, 16], "its marker is read"
    assert [transaction.first_offset for transaction in read(log, 12).aborted] == [16]


def follow(leader: Log, follower: Log, max_bytes: int) -> None:
    """Fetch until nothing is left, by at most `max_bytes` and at least a batch."""
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, max_bytes, Isolation.LOG_END, min_one_message=True)
        follower.append_as_follower(data.records)


def test_a_replica_that_missed_the_beginning_takes_the_rest(tmp_path):
    """PS-2, LG-12: it starts inside of a transaction; the abort still names what it has."""
    leader = open_log(tmp_path / "leader")
    transact(leader, 1, 0)
    transact(leader, 1, 1)
    end(leader, 1, commit=False)
    late = open_log(tmp_path / "late")
    late.truncate_fully_and_start_at(1)
    follow(leader, late, 10**6)
    late.update_high_watermark(3)
    assert visible(read(late, 1), 1) == []
    assert read(late, 1).aborted == (AbortedTransaction(1, 1),)
