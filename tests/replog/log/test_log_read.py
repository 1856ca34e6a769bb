"""Reads (S-W-R1 to S-W-R5), the high watermark (S-W-R6), log start (S-W-R7), rolling (S-W-R8), lookups by time."""

from pathlib import Path

import pytest

from leader.list_offsets import offset_for_timestamp
from replog.log.errors import OffsetOutOfRange
from replog.log.formats.batch import parse_header
from replog.log.log import Log
from replog.log.offsets import FetchData, Isolation, OffsetMetadata, TimestampAndOffset
from tests.replog.log.batches import append, changed, client_batch, layout, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Fixture R: batches 0-1 (77 bytes at 0), 2 (69 at 77), 3-5 (85 at 146)."""
    return append(open_log(tmp_path), client_batch(b"a", b"b"), client_batch(b"c"), client_batch(b"d", b"e", b"f"))


def read(log: Log, offset: int, max_bytes: int = 1000, *, min_one: bool = False, bounded: bool = False) -> FetchData:
    isolation = Isolation.HIGH_WATERMARK if bounded else Isolation.LOG_END
    return log.read(offset, max_bytes, isolation, min_one_message=min_one)


def test_reads_begin_at_the_batch_that_holds_the_offset(log):
    """S-W-R1, SG-5, LG-7."""
    assert log.bound(Isolation.LOG_END) == (6, 0, 231)
    for offset, position, size in ((0, 0, 231), (1, 0, 231), (2, 77, 154), (3, 146, 85), (5, 146, 85), (6, 231, 0)):
        data = read(log, offset)
        assert data.metadata == (offset, 0, position)
        assert len(data.records) == size
        assert not data.first_entry_incomplete


@pytest.mark.parametrize(
    ("max_bytes", "min_one", "size", "incomplete"),
    [(1, True, 77, False), (1, False, 1, True), (0, True, 77, False), (0, False, 0, False), (100, True, 100, False)],
)
def test_min_one_message(log, max_bytes, min_one, size, incomplete):
    """S-W-R2, SG-4."""
    data = read(log, 0, max_bytes, min_one=min_one)
    assert (len(data.records), data.first_entry_incomplete) == (size, incomplete)


def test_bounded_by_the_high_watermark(log):
    """S-W-R4, LG-8: at and past the bound empty, past the log end refused."""
    log.update_high_watermark(2)
    assert [len(read(log, offset, bounded=True).records) for offset in (0, 1)] == [77, 77]
    for offset, metadata in ((2, (2, 0, 77)), (3, (3, 0, 146)), (6, (6, 0, 231))):
        assert read(log, offset, bounded=True) == FetchData(OffsetMetadata(*metadata), b"")
    with pytest.raises(OffsetOutOfRange, match="offset 7 is not in 0 to 6"):
        read(log, 7, bounded=True)


def test_a_high_watermark_inside_of_a_batch_hides_the_batch(log):
    """S-W-R5, LG-6."""
    log.update_high_watermark(4)
    assert [len(read(log, offset, bounded=True).records) for offset in (0, 2, 3, 4, 5)] == [146, 69, 0, 0, 0]
    assert log.bound(Isolation.HIGH_WATERMARK) == (4, 0, 146)  # LG-6


def test_high_watermark_updates(log):
    """S-W-R6."""
    assert [log.update_high_watermark(offset) for offset in (99, 1, -1)] == [6, 1, 0]
    log.update_high_watermark(1)
    assert [log.maybe_increment_high_watermark(offset) for offset in (3, 2, 3)] == [True, False, False]
    assert log.high_watermark == 3
    with pytest.raises(AssertionError, match="high watermark 7, log end 6"):
        log.maybe_increment_high_watermark(7)
    assert [log.update_high_watermark(offset) for offset in (6, 4, 4, 100)] == [6, 4, 4, 6]


def test_rolling_moves_the_log_end_and_a_high_watermark_there(log):
    """S-W-R8, LG-0, LG-5: the second roll finds an empty segment and leaves it."""
    log.update_high_watermark(6)
    for _ in range(2):
        log.roll()
        assert {log.bound(isolation) for isolation in Isolation} == {(6, 6, 0)}
        assert layout(log) == [(0, 231), (6, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_segments_that_kafkas_cleaner_left_empty_are_passed_over(tmp_path, clean):
    """CL-8: holes between segments, and segments without a batch in the middle of the log and at its beginning."""
    log = open_log(tmp_path, segment_bytes=150, cleanup_policy="compact")
    for number in range(10):
        append(log, client_batch((b"k", b"v"), (b"k", b"w"), timestamps=[1000 + number] * 2))
    bases = [segment.base_offset for segment in log.segments]
    assert bases == list(range(0, 20, 2))
    log.close()
    emptied = [bases[index] for index in (0, 2, 3, 6)]
    for base in emptied:
        for suffix in ("log", "index", "timeindex"):
            (tmp_path / f"{base:020}.{suffix}").write_bytes(b"")
    log = open_log(tmp_path, clean=clean, segment_bytes=150, cleanup_policy="compact")
    log.update_high_watermark(20)
    assert (log.log_end_offset, log.lost_data) == (20, False)
    left = [base for base in bases if base not in emptied]
    for offset in range(20):
        for bounded in (False, True):
            data = read(log, offset, bounded=bounded)
            assert parse_header(data.records).base_offset == min(base for base in left if base + 1 >= offset)
    earliest = offset_for_timestamp(log, 0)
    assert earliest is not None
    assert earliest.offset == left[0]
    log.truncate_to(bases[3] + 1)
    assert log.log_end_offset <= bases[3] + 1
    append(log, client_batch((b"k", b"x")))
    log.close()


def test_a_batch_that_is_too_large_to_look_through_or_lies_stands_for_its_first_record(tmp_path):
    """A lookup reads records where a broker does everything else too: nobody can make it one of seconds."""
    log = open_log(tmp_path)
    append(log, client_batch(b"a", timestamps=[5]))
    count = 100_001
    append(log, client_batch(*[b""] * count, timestamps=[*[6] * (count - 1), 9], codec=1))
    assert offset_for_timestamp(log, 9) == TimestampAndOffset(9, 1, 0)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(50)
    assert offset_for_timestamp(log, 9) == TimestampAndOffset(9, 50, 0)
    lie = changed(client_batch(b"b", b"c", timestamps=[7, 8]), 35, ">q", 1000)
    append(log, lie, client_batch(b"d", timestamps=[2000]))
    assert offset_for_timestamp(log, 500) == TimestampAndOffset(1000, count + 1, 0)
    assert offset_for_timestamp(log, 1001) == TimestampAndOffset(2000, count + 3, 0)
    log.maybe_increment_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(count + 2)
    assert offset_for_timestamp(log, 500) == TimestampAndOffset(2000, count + 3, 0)
