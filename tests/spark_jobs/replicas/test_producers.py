"""Transaction indexes and snapshots of logs that grow, or know less than they did; more in `tests/damage/rows.py`."""

from pathlib import Path

from spark_jobs.replicas.blocks import Cells, Producing, check_blocks
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.producers import producer_faults
from tests.replog.log.batches import open_log
from tests.replog.log.producers.writes import end, transact


def transactions(directory: Path, first: int, count: int) -> None:
    """As a running broker appends them, each with the marker that aborts it."""
    log = open_log(directory, segment_bytes=1000)
    for number in range(first, first + count):
        transact(log, 5, number)
        end(log, 5, commit=False)
    log.close()


def segments(root: Path) -> tuple[ReplicaSegment, ...]:
    (files,) = DirectoryStore(1, root).partitions(frozenset())
    return files.segments


def test_transactions_that_come_while_a_segment_is_read_are_no_fault(tmp_path):
    """Its entries are younger than the headers that were read before."""
    transactions(tmp_path / "t-0", 0, 3)
    (segment,) = segments(tmp_path)
    told: list[Producing] = []
    list(check_blocks(segment, 0, Cells(1 << 20, (), 6), crc=True, producing=told))
    transactions(tmp_path / "t-0", 3, 2)
    assert told
    assert list(producer_faults(segment, 0, 6, *told)) == []


def test_what_may_not_have_been_written_yet_is_not_missed(tmp_path):
    """Behind the high watermark a broker that was killed has a marker without its entry."""
    transactions(tmp_path / "t-0", 0, 3)
    (segment,) = segments(tmp_path)
    index = tmp_path / "t-0" / "00000000000000000000.txnindex"
    index.write_bytes(index.read_bytes()[:-34])
    assert list(producer_faults(segment, 0, 4)) == []
    assert [fault.first for fault in producer_faults(segment, 0, 6)] == [5]


def test_without_the_snapshot_at_its_beginning_nothing_is_said_of_what_lies_before_a_segment(tmp_path):
    """PS-10: a state that was made again may know less."""
    transactions(tmp_path / "t-0", 0, 15)
    _, second, _ = segments(tmp_path)
    assert list(producer_faults(second, 0, 30)) == []
    for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    assert list(producer_faults(second, 0, 30)) == []
