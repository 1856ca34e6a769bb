"""What a leader takes from producers (PS-1 to PS-4), worked case by worked case (S-W-P1 to S-W-P10); expiry (PS-11)."""

from pathlib import Path

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import InvalidRecord
from replog.log.formats.batch import parse_header
from replog.log.formats.control_batch import EndTransactionMarker
from replog.log.log import Log
from replog.log.offsets import AppendOrigin, Isolation
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log.producers.state import ProducerStateManager
from tests.replog.log.batches import changed, client_batch, files_of, open_log, stamped
from tests.replog.log.producers.writes import batch, end, marker, produce, send, transact

MAX = 2**31 - 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path)


def entry(log: Log, pid: int = 1) -> ProducerSnapshotEntry:
    (matching,) = [entry for entry in log.producers.snapshot_entries() if entry.producer_id == pid]
    return matching


def cached(log: Log, pid: int = 1) -> list[tuple[int, int]]:
    """First sequence and first offset of the batches that a producer's duplicates are told by."""
    return [(known.first_sequence, known.first_offset) for known in log.producers._producers[pid].batches]


def w_p1(log: Log) -> None:
    """Batches of producer 1: offsets 0, 1-2, 3, 4-6, 7, 8."""
    rows = [(0, 1), (1, 2), (3, 1), (4, 3), (7, 1), (8, 1)]
    assert [send(log, 0, first, count) for first, count in rows] == [(0, 0), (1, 2), (3, 3), (4, 6), (7, 7), (8, 8)]


def refused(log: Log, error: ErrorCode, *rows: tuple[int, int, int]) -> None:
    """Each (epoch, first sequence, count) is, and leaves no trace."""
    before, end_offset, states = files_of(log.directory), log.log_end_offset, log.producers.snapshot_entries()
    for epoch, sequence, count in rows:
        with pytest.raises(ReplogError, match=error.name):
            log.append_as_leader(batch(epoch, sequence, count), leader_epoch=9, now_ms=0)
        after = files_of(log.directory), log.log_end_offset, log.producers.snapshot_entries()
        assert after == (before, end_offset, states), (epoch, sequence, count)
        assert log.epochs.latest_epoch == 0, "a refused append leaves no epoch behind"


def test_a_run_of_sequences(log):
    """S-W-P1, PS-1, PS-2: five batches are kept."""
    w_p1(log)
    assert cached(log) == [(1, 1), (3, 3), (4, 4), (7, 7), (8, 8)]


def test_duplicates_are_answered_with_the_first_offsets(log):
    """S-W-P2, PS-3, LG-2: nothing is written."""
    w_p1(log)
    before = files_of(log.directory)
    assert [send(log, 0, *row) for row in [(8, 1), (4, 3), (1, 2)]] == [(8, 8), (4, 6), (1, 2)]
    assert (log.log_end_offset, files_of(log.directory)) == (9, before)
    (info,) = produce(log, batch(0, 8))
    assert (info.size, info.log_append_time) == (0, 1000)


def test_what_is_neither_next_nor_a_duplicate_is_refused(log):
    """S-W-P3, PS-2: a duplicate too old, one that overlaps two ways, one too long, a gap."""
    w_p1(log)
    refused(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (0, 0, 1), (0, 4, 2), (0, 5, 2), (0, 4, 5), (0, 10, 1))
    with pytest.raises(ReplogError, match="sequence 10 after epoch 0, sequence 8") as caught:
        send(log, 0, 10)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epochs(log):
    """S-W-P4, PS-1, PS-2."""
    w_p1(log)
    send(log, 0, 9)
    refused(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (1, 5, 1))
    send(log, 1, 0)
    assert cached(log) == [(0, 10)], "a new epoch forgets the batches of the one before"
    refused(log, ErrorCode.INVALID_PRODUCER_EPOCH, (0, 10, 1), (0, 9, 1))
    assert send(log, 3, 0, 2) == (11, 12)
    refused(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (4, 1, 1))


def test_a_follower_accepts_what_its_leader_had(log):
    """S-W-P7, PS-2: a batch twice, a gap, an old epoch, a plain batch within a transaction; the state follows."""
    rows = [(2, 0, 2, False), (2, 0, 2, False), (2, 9, 1, False), (1, 5, 1, True), (1, 6, 1, False)]
    for epoch, sequence, count, transactional in rows:
        data = batch(epoch, sequence, count, transactional=transactional)
        log.append_as_follower(stamped(data, log.log_end_offset, 0))
    assert log.log_end_offset == 7
    assert entry(log) == (1, 1, 6, 6, 0, 1000, -1, 5)


def test_the_last_stable_offset_through_an_abort_and_a_commit(log):
    """S-W-P8, PS-5, PS-6, LG-0."""
    transact(log, 1, 0, 2)
    produce(log, client_batch(b"plain"))
    transact(log, 2, 0)
    assert end(log, 1, commit=False) == 4
    assert list(log._segments.active.transaction_index.entries()) == [(1, 0, 4, 3)]
    stable = []
    for high_watermark in (2, 4, 5):
        log.update_high_watermark(high_watermark)
        stable.append(log.last_stable_offset)
    assert stable == [0, 0, 3]
    assert log.bound(Isolation.TXN_COMMITTED) == (3, 0, log._segments.locate(3).position)
    assert end(log, 2, commit=True) == 5
    assert log.last_stable_offset == 3
    assert log.maybe_increment_high_watermark(6)
    assert log.last_stable_offset == 6
    assert len({log.bound(isolation) for isolation in Isolation}) == 1


def test_a_marker_that_raises_the_epoch(log):
    """S-W-P10, PS-4: after a lone marker data begins at sequence 0."""
    send(log, 0, 0)
    end(log, 1, commit=False, epoch=3)
    refused(log, ErrorCode.INVALID_PRODUCER_EPOCH, (0, 1, 1))
    refused(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (3, 5, 1))
    assert send(log, 3, 0) == (2, 2)


def test_ps_4_stale_markers_are_refused(log):
    """PS-4."""
    transact(log, 1, 0)
    end(log, 1, commit=True, epoch=2, coordinator_epoch=5)
    with pytest.raises(ReplogError, match=r"INVALID_PRODUCER_EPOCH: .*sent epoch 1 and is at 2"):
        end(log, 1, commit=True, epoch=1, coordinator_epoch=5)
    with pytest.raises(ReplogError, match=r"TRANSACTION_COORDINATOR_FENCED: .*coordinator epoch 4, below 5"):
        end(log, 1, commit=True, epoch=2, coordinator_epoch=4)
    assert log.log_end_offset == 2
    assert end(log, 1, commit=True, epoch=2, coordinator_epoch=5) == 2


def test_ps_4_a_follower_takes_stale_markers(log):
    """PS-4: the leader has them; the state follows."""
    transact(log, 1, 0)
    end(log, 1, commit=True, epoch=2, coordinator_epoch=5)
    log.append_as_follower(stamped(marker(1, commit=False, epoch=1, coordinator_epoch=4), 2, 0))
    assert entry(log) == (1, 1, -1, -1, 0, 1000, 4, -1)


def test_ps_4_a_marker_without_a_record_has_no_effect():
    """PS-4: compaction may leave the bare header."""
    producers = ProducerStateManager()
    producers.update(parse_header(batch(0, 0, transactional=True)))
    assert producers.update(parse_header(marker(1, commit=False)), None) is None
    assert producers.first_unstable_offset == 0


def test_ps_11_idle_producers_are_forgotten(log):
    """PS-11: by when they wrote, whatever the age of their records, and unless they have an open transaction."""
    produce(log, batch(0, 5, pid=1, timestamp=1), batch(0, 5, pid=2, timestamp=1))
    produce(log, batch(0, 5, pid=3, timestamp=1, transactional=True))
    assert log.producers.remove_expired(5000, 1000) == 0
    produce(log, batch(0, 6, pid=2, timestamp=1))
    assert log.producers.remove_expired(5999, 1000) == 0
    assert log.producers.remove_expired(6000, 1000) == 1
    assert [known.producer_id for known in log.producers.snapshot_entries()] == [2, 3]
    assert send(log, 0, 99, pid=1) == (4, 4)
    end(log, 3, commit=True)
    assert log.producers.remove_expired(6999, 1000) == 1
    assert log.producers.remove_expired(10**6, 1000) == 2


@pytest.mark.parametrize("log_start_offset", [2, 4])
def test_a_restart_remembers_producers_whose_data_was_deleted(log_start_offset, log):
    """PS-11: or a retry of what was appended and deleted meanwhile would be appended again. RB-5: sequences wrap."""
    produce(log, batch(0, 5, pid=1), batch(0, MAX - 1, pid=2), batch(0, MAX, 2, pid=2))
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(log_start_offset)
    log.close()
    again = Log.open(log.directory, log.config, clean=True, recovery_point=4, log_start_offset=log_start_offset)
    assert [known.producer_id for known in again.producers.snapshot_entries()] == [1, 2]
    assert send(again, 0, MAX, 2, pid=2) == (2, 3)
    again.close()


def test_a_coordinators_data_is_checked_by_its_epoch_alone(log):
    """PS-2: it has no sequences."""
    produce(log, batch(4, 0))
    produce(log, batch(4, 7), batch(4, 3), origin=AppendOrigin.COORDINATOR)
    with pytest.raises(ReplogError, match="INVALID_PRODUCER_EPOCH"):
        produce(log, batch(3, 8), origin=AppendOrigin.COORDINATOR)


def test_a_malformed_marker_is_refused_by_a_leader_and_passed_over_by_a_follower(log):
    """2.3."""
    good = marker(1, commit=False)
    assert good[66:70] == bytes(4), "version and type, in the key"
    broken = changed(good, 66, ">h", -1)
    with pytest.raises(InvalidRecord):
        produce(log, broken, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 0
    log.append_as_follower(stamped(broken, 0, 0))
    assert (log.log_end_offset, log.producers.snapshot_entries()) == (1, [])


@pytest.mark.parametrize(
    "header", [parse_header(batch(0, 0)), parse_header(batch(0, 0, transactional=True))], ids=["plain", "transactional"]
)
def test_a_check_changes_nothing(header):
    producers = ProducerStateManager()
    assert producers.check(header, AppendOrigin.CLIENT) is None
    assert producers.empty
    producers.update(header)
    before = producers.snapshot_entries()
    producers.check(header, AppendOrigin.CLIENT)
    producers.check(parse_header(marker(1, commit=True)), AppendOrigin.COORDINATOR, EndTransactionMarker(True, 9))
    assert producers.snapshot_entries() == before


@pytest.mark.parametrize(("pid", "epoch", "sequence"), [(1, -1, 0), (1, 0, -1)])
def test_a_producer_has_an_epoch_and_a_sequence(log, pid, epoch, sequence):
    """2.7."""
    with pytest.raises(InvalidRecord, match="neither may be negative"):
        send(log, epoch, sequence, pid=pid)
