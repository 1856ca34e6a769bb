"""Reading an index file: from its end, and where it cannot be known what is an entry."""

from itertools import islice
from pathlib import Path

from replog.log.files.names import INDEX_SUFFIX
from replog.log.indexes.offset_index import OffsetIndex
from replog.log_tools.checker.indexes import read_index
from spark_jobs.replicas.counting import CountingStore
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.index_files import FIRST_ENTRIES, entries_from_end
from spark_jobs.replicas.sound import SoundIndex

BASE = 1000
COUNT = 3 * FIRST_ENTRIES  # more than a few windows hold
ENTRIES = [(BASE + number, 100 * number) for number in range(1, COUNT)]


def segment_with(directory: Path, content: bytes | None) -> ReplicaSegment:
    path = directory / "orders-0" / f"{BASE:020}.index"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    return ReplicaSegment(CountingStore(DirectoryStore(1, directory)), "orders", 0, BASE, None, 0, 0, 0)


def packed() -> bytes:
    return b"".join(OffsetIndex.layout.pack(offset - BASE, position) for offset, position in ENTRIES)


def test_all_entries_come_the_last_one_first(tmp_path):
    assert list(entries_from_end(segment_with(tmp_path, packed()))) == ENTRIES[::-1]


def test_unused_slots_and_half_an_entry_are_passed_over(tmp_path):
    """A preallocated file ends with slots that are not used yet (IX-2)."""
    unused = bytes(10 * FIRST_ENTRIES + OffsetIndex.layout.size // 2)
    assert list(entries_from_end(segment_with(tmp_path, packed() + unused))) == ENTRIES[::-1]


def test_a_single_slot_of_zeros_may_be_unused_and_is_no_lie(tmp_path):
    """Preallocated (IX-2), or the entry of a batch at the base whose timestamps are 0."""
    segment = segment_with(tmp_path, bytes(OffsetIndex.layout.size))
    assert list(read_index(segment, INDEX_SUFFIX).rows) == []
    assert SoundIndex(segment, INDEX_SUFFIX).last_offset == -1


def test_an_entry_that_can_be_of_no_batch_is_left_out(tmp_path):
    lies = OffsetIndex.layout.pack(-5, 3) + OffsetIndex.layout.pack(5, -3)
    assert list(entries_from_end(segment_with(tmp_path, packed() + lies))) == ENTRIES[::-1]


def test_without_an_index_there_are_no_entries(tmp_path):
    assert list(entries_from_end(segment_with(tmp_path, None))) == []


def test_the_last_entry_costs_one_small_read(tmp_path):
    segment = segment_with(tmp_path, packed())
    assert list(islice(entries_from_end(segment), 1)) == ENTRIES[-1:]
    assert isinstance(segment.store, CountingStore)
    assert segment.store.bytes_read == FIRST_ENTRIES
