"""The offset index, the time index, the digest index, and the search that begins at the warm end."""

import os
import struct
from pathlib import Path

import pytest

from replog.log.errors import CorruptIndex, IndexOffsetOverflow, InvalidIndexOffset
from replog.log.files.filesystem import read_exactly
from replog.log.formats.batch import parse_header
from replog.log.indexes.index import DigestIndex, Index, OffsetIndex, TimeIndex, Unpack
from replog.log.offsets import Buffer
from replog.log.segment import Segment
from tests.replog.log.batches import config, leader_batch
from tests.replog.log.files.test_open_files import held


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetIndex:
    index = OffsetIndex(tmp_path / "o.index", 100)
    for offset, position in ((105, 0), (110, 512), (120, 1024), (121, 2048)):
        index.append(offset, position)
    index.write()
    return index


def reopened(index: OffsetIndex) -> OffsetIndex:
    index.close()
    return OffsetIndex(index.path, index.base_offset)


def test_appends_must_grow_and_fit(offsets):
    """S-W-I3, IX-4, IX-10."""
    for offset in (121, 119):
        with pytest.raises(InvalidIndexOffset):
            offsets.append(offset, 5000)
    with pytest.raises(IndexOffsetOverflow):
        offsets.append(100 + 2**31, 5000)
    offsets.append(100 + 2**31 - 1, 9000)
    offsets.write()
    assert offsets.path.read_bytes()[-8:] == bytes.fromhex("7fffffff00002328")


@pytest.mark.parametrize(("offset", "left"), [(200, 4), (121, 3), (120, 2), (119, 2), (106, 1), (105, 0), (104, 0)])
@pytest.mark.parametrize("from_disk", [False, True])
def test_truncation_keeps_smaller_offsets(offsets, offset, left, from_disk):
    """S-W-I5, IX-13."""
    index = reopened(offsets) if from_disk else offsets
    index.truncate_to(offset)
    assert index.count == left
    assert index.path.stat().st_size == left * 8
    index.append(300, 4096)
    index.write()
    assert index.lookup(999) == (300, 4096)
    assert reopened(index).count == left + 1


def test_a_file_holds_its_entries_alone(offsets):
    """S-W-I6, S-W-I7, IX-5, IX-6, changed: nothing is preallocated or trimmed, and a reopened index is not full."""
    assert offsets.path.stat().st_size == 32
    assert reopened(offsets).count == 4


def probes_of(index: Index) -> list[int]:
    """The slots that searches look at from now on, in order."""
    probes: list[int] = []
    read, first = index._read, 0

    def reading(start: int, end: int) -> bytes:
        nonlocal first
        first = start
        return read(start, end)

    def recording(unpack: Unpack) -> Unpack:
        def recorded(data: Buffer, position: int) -> tuple[int, ...]:
            probes.append(first + position // index.layout.size)
            return unpack(data, position)

        return recorded

    vars(index)["_read"] = reading
    vars(index)["fields"] = tuple(recording(unpack) for unpack in index.fields)
    return probes


@pytest.mark.parametrize(
    ("target", "probes"),
    [
        (2999, [1975, 2487, 2743, 2871, 2935, 2967, 2983, 2991, 2995, 2997, 2998, 2999]),
        (1976, [1975, 2487, 2231, 2103, 2039, 2007, 1991, 1983, 1979, 1977, 1976]),
        (1975, [1975, 0, 988, 1482, 1729, 1852, 1914, 1945, 1960, 1968, 1972, 1974, 1975]),
        (0, [1975, 0, 988, 494, 247, 123, 61, 30, 15, 7, 3, 1]),
    ],
)
@pytest.mark.parametrize("from_disk", [False, True])
def test_the_warm_end_is_searched_first(tmp_path, target, probes, from_disk):
    """S-W-I9, IX-17: these probes and no others, for offsets and for positions."""
    index = OffsetIndex(tmp_path / "o.index", 0)
    for slot in range(3000):
        index.append(slot, slot * 10)
    index.write()
    if from_disk:
        index = reopened(index)
    seen = probes_of(index)
    assert index.lookup(target) == (target, target * 10)
    assert seen == probes
    seen.clear()
    assert index.fetch_upper_bound(target * 10, 0) == (target, target * 10)
    assert seen == probes


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex, DigestIndex])
@pytest.mark.parametrize("count", [1, 500, 683, 1025, 1026, 1535, 1536, 1537, 20_000, 20_001])
def test_look_ups_at_the_tail_of_a_reopened_index_touch_three_pages(tmp_path, monkeypatch, kind, count):
    """IX-18; S-W-T5, IX-17: 682 entries of a time index are warm. Every byte of the file that is read is seen here."""
    path = tmp_path / "some.index"
    path.write_bytes(b"".join(kind.layout.pack(slot, slot) for slot in range(count)))
    pages: set[int] = set()

    def reading(fd: int, position: int, size: int) -> bytes:
        pages.update(range(position // 4096, (position + size - 1) // 4096 + 1))
        return read_exactly(fd, position, size)

    monkeypatch.setattr("replog.log.files.cold.read_exactly", reading)
    index = kind(path, 0)
    index.check_shape()
    seen = probes_of(index)
    lowest = max(0, count - 1 - 8192 // kind.layout.size)
    for slot in (*range(lowest + 1, count, 37), *range(max(lowest + 1, count - 3), count)):
        assert index.slot_up_to(slot) == slot
    assert seen == [] or min(seen) == lowest
    assert len(pages) <= 3, pages


def test_an_index_holds_nothing_open_until_entries_are_asked_for(tmp_path):
    """IX-8, IX-7: nor is a missing file created; deleting the file leaves what is open usable."""
    missing = OffsetIndex(tmp_path / "missing.index", 0)
    assert missing.lookup(7) == (0, 0)
    assert missing.fetch_upper_bound(0, 1) is None
    missing.close()
    assert not missing.path.exists()
    path = tmp_path / "o.index"
    path.write_bytes(b"".join(struct.pack(">ii", slot, slot * 10) for slot in range(3000)))
    index = OffsetIndex(path, 0)
    assert held(tmp_path) == []
    assert index.lookup(2999) == (2999, 29990)
    assert index.lookup(7) == (7, 70)
    assert held(tmp_path) == ["o.index"]
    path.unlink()
    assert index.lookup(8) == (8, 80)
    index.close()
    assert held(tmp_path) == []
    assert not path.exists()


def test_entries_not_yet_written_are_found_and_closing_drops_them(tmp_path):
    """IX-9, IX-5: a look-up sees whole entries only, the newest included."""
    index = OffsetIndex(tmp_path / "o.index", 0)
    for slot in range(5000):
        index.append(slot, slot * 10)
    assert index.path.exists() is False
    assert (index.lookup(4999), index.lookup(3)) == ((4999, 49990), (3, 30))
    index.write()
    index.append(5000, 50000)
    assert index.lookup(5001) == (5000, 50000)
    index.close()
    assert (index.count, index.last_offset) == (5000, 4999)
    assert index.path.stat().st_size == 40_000
    index.append(5001, 50010)
    index.write()
    assert reopened(index).lookup(5001) == (5001, 50010)


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    index = TimeIndex(tmp_path / "t.timeindex", 100)
    index.maybe_append(1000, 105)
    index.maybe_append(2000, 110)
    return index


def test_equal_timestamps_are_ignored_and_steps_back_refused(times):
    """S-W-T2, IX-15."""
    times.maybe_append(2000, 115)
    times.maybe_append(2000, 110)
    assert times.count == 2
    for timestamp, offset in ((1999, 120), (3000, 109), (2000, 109)):
        with pytest.raises(InvalidIndexOffset):
            times.maybe_append(timestamp, offset)
    times.maybe_append(3000, 110)
    assert times.count == 3


def test_the_last_slot_is_kept_for_the_entry_of_the_roll(tmp_path):
    """S-W-T3, IX-3, IX-14: an index does not refuse; a segment whose next entry would need that slot rolls."""
    five_times = config(segment_index_bytes=60, index_interval_bytes=0)
    segment = Segment(tmp_path, 100)
    segment.create()
    headers = [parse_header(leader_batch(100 + slot, 0, b"v", timestamps=[1000 * slot])) for slot in range(8)]
    entries = []
    for header in headers:
        if segment.should_roll(header, five_times):
            break
        segment.add(header, 0)
        entries.append(segment.time_index.count)
    assert entries == [0, 1, 2, 3, 4]
    segment.time_index.maybe_append(7000, 107)
    assert segment.time_index.count == 5


@pytest.mark.parametrize(("offset", "left"), [(141, 4), (140, 3), (131, 3), (130, 2), (111, 2), (110, 1), (105, 0)])
def test_truncation_goes_by_offset(times, offset, left):
    """S-W-T4, IX-16."""
    times.maybe_append(3000, 130)
    times.maybe_append(4000, 140)
    times.write()
    times.truncate_to(offset)
    assert times.count == left
    assert times.path.stat().st_size == left * 12


def test_digest_entries_hold_all_64_bits(tmp_path):
    index = DigestIndex(tmp_path / "d.digest", 1000)
    assert index.lookup(1004) == (999, 0)
    index.append(1003, 2**64 - 1)
    index.append(1005, 1)
    index.write()
    assert index.path.read_bytes() == bytes.fromhex("00000003ffffffffffffffff000000050000000000000001")
    assert index.lookup(1004) == (1003, 2**64 - 1)
    with pytest.raises(InvalidIndexOffset):
        index.append(1005, 1)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (OffsetIndex, bytes(11), "3 bytes after"),
        (OffsetIndex, struct.pack(">iiii", 5, 80, 4, 90), "does not follow"),
        (OffsetIndex, struct.pack(">iiii", 5, 80, 6, 80), "does not follow"),
        (OffsetIndex, struct.pack(">ii", 5, 1) + bytes(72), "does not follow"),  # left by a preallocating writer
        (OffsetIndex, struct.pack(">ii", -1, 80), "no offset of its segment"),
        (TimeIndex, struct.pack(">qiqi", 5, 1, 5, 2), "does not follow"),
        (TimeIndex, struct.pack(">qiqi", 5, 2, 6, 1), "does not follow"),
        (DigestIndex, struct.pack(">IQIQ", 5, 1, 5, 2), "does not follow"),
        (DigestIndex, struct.pack(">IQ", 2**31, 1), "no offset of its segment"),
    ],
)
def test_an_index_out_of_shape_is_corrupt(tmp_path, kind, content, said):
    """IX-13, IX-16; S-W-I8, IX-2, changed: Kafka's sanity check passes zeros."""
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(CorruptIndex, match=said):
        kind(path, 0).check_shape()


@pytest.mark.parametrize("kept", [0, 8, 8 * 1000, 8 * 2990, 8 * 2999 + 7])
def test_an_index_that_shrinks_behind_our_back_is_corrupt(tmp_path, kept):
    path = tmp_path / "o.index"
    path.write_bytes(b"".join(struct.pack(">ii", slot, slot * 10) for slot in range(3000)))
    unread, read = OffsetIndex(path, 0), OffsetIndex(path, 0)
    assert read.lookup(2999) == (2999, 29990)
    os.truncate(path, kept)
    with pytest.raises(CorruptIndex, match="lost some of its 3000 entries"):
        unread.lookup(2999)
    with pytest.raises(CorruptIndex, match="lost some of its 3000 entries"):
        read.lookup(5)
