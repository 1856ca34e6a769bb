"""Offset index (W-I), time index (W-T), digest index, and the warm search (IX-17)."""

import struct
from pathlib import Path

import pytest

from replog.log.errors import CorruptIndex, IndexOffsetOverflow, InvalidIndexOffset
from replog.log.index import DigestIndex, Index, OffsetIndex, TimeIndex


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


@pytest.mark.parametrize("from_disk", [False, True])
def test_w_i1_lookup_finds_the_greatest_offset_up_to_the_target(offsets: OffsetIndex, from_disk: bool) -> None:
    index = reopened(offsets) if from_disk else offsets
    expected = {
        (100, 0): (0, 99, 100, 104),
        (105, 0): (105, 106, 109),
        (110, 512): (110, 119),
        (120, 1024): (120,),
        (121, 2048): (121, 122, 99999),
    }
    for entry, targets in expected.items():
        for target in targets:
            assert index.lookup(target) == entry, target


def test_w_i2_an_empty_index_leads_to_the_beginning_of_its_segment(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "o.index", 100)
    assert index.lookup(100) == index.lookup(500) == (100, 0)
    assert index.last_offset is None  # Kafka says the base offset; here "no entry" is told apart


def test_w_i3_appends_must_grow_and_fit(offsets: OffsetIndex) -> None:
    for offset in (121, 119):
        with pytest.raises(InvalidIndexOffset):
            offsets.append(offset, 5000)
    with pytest.raises(IndexOffsetOverflow):
        offsets.append(100 + 2**31, 5000)
    offsets.append(100 + 2**31 - 1, 9000)
    offsets.write()
    assert offsets.path.read_bytes()[-8:] == bytes.fromhex("7fffffff00002328")


@pytest.mark.parametrize(
    ("start", "size", "bound"),
    [
        (0, 1, (110, 512)),
        (0, 512, (110, 512)),
        (0, 513, (120, 1024)),
        (1024, 1024, (121, 2048)),
        (2048, 1, None),
        (0, 0, (105, 0)),
        (0, 2**31, None),
    ],
)
def test_w_i4_the_upper_bound_is_the_first_entry_at_or_after_the_end(
    offsets: OffsetIndex, start: int, size: int, bound: tuple[int, int] | None
) -> None:
    """IX-12, without Kafka's quirk of going one further when the first slot searched is the answer."""
    assert offsets.fetch_upper_bound(start, size) == bound


def test_an_index_without_entries_or_with_later_ones_only_has_that_upper_bound(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "o.index", 100)
    assert index.fetch_upper_bound(0, 1) is None
    index.append(110, 512)
    assert index.fetch_upper_bound(0, 1) == (110, 512)


@pytest.mark.parametrize(("offset", "left"), [(200, 4), (121, 3), (120, 2), (119, 2), (106, 1), (105, 0), (104, 0)])
@pytest.mark.parametrize("from_disk", [False, True])
def test_w_i5_truncation_keeps_smaller_offsets(offsets: OffsetIndex, offset: int, left: int, from_disk: bool) -> None:
    index = reopened(offsets) if from_disk else offsets
    index.truncate_to(offset)
    assert index.count == left
    assert index.path.stat().st_size == left * 8
    index.append(300, 4096)
    index.write()
    assert index.lookup(999) == (300, 4096)
    assert reopened(index).count == left + 1


def test_w_i6_w_i7_a_file_holds_its_entries_alone(offsets: OffsetIndex) -> None:
    """Changed: nothing is preallocated, so there is nothing to trim, and a reopened index is not full."""
    assert offsets.path.stat().st_size == 32
    assert reopened(offsets).count == 4


def test_w_i8_zeros_left_by_a_preallocating_writer_are_noticed(tmp_path: Path) -> None:
    """Changed: Kafka's sanity check passes this file."""
    path = tmp_path / "o.index"
    path.write_bytes(struct.pack(">ii", 5, 1) + bytes(72))
    with pytest.raises(CorruptIndex, match="does not follow"):
        OffsetIndex(path, 0).check_shape()


class Probed(OffsetIndex):
    """Records the slots that a search looks at."""

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self.probes: list[int] = []

    def entry(self, slot: int) -> tuple[int, ...]:
        self.probes.append(slot)
        return super().entry(slot)


@pytest.mark.parametrize(
    ("target", "probes"),
    [
        (2999, [1975, 2487, 2743, 2871, 2935, 2967, 2983, 2991, 2995, 2997, 2998, 2999]),
        (1976, [1975, 2487, 2231, 2103, 2039, 2007, 1991, 1983, 1979, 1977, 1976]),
        (1975, [1975, 0, 988, 1482, 1729, 1852, 1914, 1945, 1960, 1968, 1972, 1974, 1975]),
        (0, [1975, 0, 988, 494, 247, 123, 61, 30, 15, 7, 3, 1]),
    ],
)
def test_w_i9_the_warm_end_is_searched_first(tmp_path: Path, target: int, probes: list[int]) -> None:
    path = tmp_path / "o.index"
    path.write_bytes(b"".join(struct.pack(">ii", slot, slot * 10) for slot in range(3000)))
    index = Probed(path, 0)
    assert index._search(target, 0) == target
    assert index.probes == probes
    assert index.lookup(target) == (target, target * 10)


def test_lookups_agree_whether_entries_are_in_memory_or_mapped(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "o.index", 7)
    for slot in range(1, 9000):
        index.append(7 + 3 * slot, 100 * slot)
        if slot % 10 == 0:
            index.write()
        if slot % 777 == 0:
            for target in (7, 9, 10, 7 + 3 * slot // 2, 7 + 3 * slot, 10**6):
                found = min(max((target - 7) // 3, 0), slot)
                assert index.lookup(target) == (7 + 3 * found, 100 * found)
    index.write()
    assert len(index._tail) < 3 * 8192
    assert index.path.read_bytes() == b"".join(struct.pack(">ii", 3 * slot, 100 * slot) for slot in range(1, 9000))
    index.truncate_to(7 + 3 * 100)
    assert (index.count, index.last_offset) == (99, 7 + 3 * 99)


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    index = TimeIndex(tmp_path / "t.timeindex", 100)
    index.maybe_append(1000, 105)
    index.maybe_append(2000, 110)
    return index


def test_w_t1_time_lookup(times: TimeIndex) -> None:
    for timestamps, entry in (
        ((-1, 0, 999), (-1, 100)),
        ((1000, 1001, 1999), (1000, 105)),
        ((2000, 9999), (2000, 110)),
    ):
        for timestamp in timestamps:
            assert times.lookup(timestamp) == entry


def test_w_t2_equal_timestamps_are_ignored_and_steps_back_refused(times: TimeIndex) -> None:
    times.maybe_append(2000, 115)
    times.maybe_append(2000, 110)
    assert times.count == 2
    for timestamp, offset in ((1999, 120), (3000, 109), (2000, 109)):
        with pytest.raises(InvalidIndexOffset):
            times.maybe_append(timestamp, offset)
    times.maybe_append(3000, 110)
    assert times.count == 3


@pytest.mark.parametrize(("offset", "left"), [(141, 4), (140, 3), (131, 3), (130, 2), (111, 2), (110, 1), (105, 0)])
def test_w_t4_truncation_goes_by_offset(times: TimeIndex, offset: int, left: int) -> None:
    times.maybe_append(3000, 130)
    times.maybe_append(4000, 140)
    times.write()
    times.truncate_to(offset)
    assert times.count == left
    assert times.path.stat().st_size == left * 12


def test_w_t5_the_warm_section_of_a_time_index_has_682_entries(tmp_path: Path) -> None:
    index = TimeIndex(tmp_path / "t.timeindex", 0)
    probes: list[int] = []
    read = Index.entry

    def entry(self: Index, slot: int) -> tuple[int, ...]:
        probes.append(slot)
        return read(self, slot)

    for slot in range(2000):
        index.maybe_append(slot, slot)
    index.entry = entry.__get__(index)  # type: ignore[method-assign]
    assert index.lookup(1317) == (1317, 1317)
    assert probes[:2] == [1317, 0]  # cold: not strictly greater than the first warm entry


def test_digest_entries_hold_all_64_bits(tmp_path: Path) -> None:
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
        (OffsetIndex, struct.pack(">ii", -1, 80), "no offset of its segment"),
        (TimeIndex, struct.pack(">qiqi", 5, 1, 5, 2), "does not follow"),
        (TimeIndex, struct.pack(">qiqi", 5, 2, 6, 1), "does not follow"),
        (DigestIndex, struct.pack(">IQIQ", 5, 1, 5, 2), "does not follow"),
        (DigestIndex, struct.pack(">IQ", 2**31, 1), "no offset of its segment"),
    ],
)
def test_an_index_out_of_shape_is_corrupt(tmp_path: Path, kind: type[Index], content: bytes, said: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(CorruptIndex, match=said):
        kind(path, 0).check_shape()
