"""Reading an offset index from its end."""

from itertools import islice
from pathlib import Path

from replog.log.index import OffsetIndex
from spark_jobs.replicas.counting import CountingStore
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.index_files import FIRST_ENTRIES, entries_from_end

BASE = 1000
COUNT = 3 * FIRST_ENTRIES  # more than a few windows hold
ENTRIES = [(BASE + number, 100 * number) for number in range(1, COUNT)]


def segment_with(directory: Path, content: bytes | None) -> Segment:
    path = directory / "orders-0" / f"{BASE:020}.index"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    return Segment(CountingStore(DirectoryStore(1, directory)), "orders", 0, BASE, None, 0, 0, 0)


def packed() -> bytes:
    return b"".join(OffsetIndex.layout.pack(offset - BASE, position) for offset, position in ENTRIES)


def test_all_entries_come_the_last_one_first(tmp_path: Path) -> None:
    assert list(entries_from_end(segment_with(tmp_path, packed()))) == ENTRIES[::-1]


def test_unused_slots_and_half_an_entry_are_passed_over(tmp_path: Path) -> None:
    """A preallocated file ends with slots that are not used yet (IX-2)."""
    unused = bytes(10 * FIRST_ENTRIES + OffsetIndex.layout.size // 2)
    assert list(entries_from_end(segment_with(tmp_path, packed() + unused))) == ENTRIES[::-1]


def test_an_entry_that_can_be_of_no_batch_is_left_out(tmp_path: Path) -> None:
    lies = OffsetIndex.layout.pack(-5, 3) + OffsetIndex.layout.pack(5, -3)
    assert list(entries_from_end(segment_with(tmp_path, packed() + lies))) == ENTRIES[::-1]


def test_without_an_index_there_are_no_entries(tmp_path: Path) -> None:
    assert list(entries_from_end(segment_with(tmp_path, None))) == []


def test_the_last_entry_costs_one_small_read(tmp_path: Path) -> None:
    segment = segment_with(tmp_path, packed())
    assert list(islice(entries_from_end(segment), 1)) == ENTRIES[-1:]
    assert isinstance(segment.store, CountingStore)
    assert segment.store.bytes_read == FIRST_ENTRIES
