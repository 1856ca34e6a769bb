"""Segments: index entries per batch (S-W-S1 to S-W-S4), look-ups and truncation (S-W-S5), offset range, rolls."""

import os
from pathlib import Path

import pytest

from replog.log.errors import IndexOffsetOverflow
from replog.log.formats.batch import BatchHeader, parse_header
from replog.log.producers.recovery import LoadingProducers, ProducerSnapshots
from replog.log.recovery import recover
from replog.log.segment import UNWRITTEN_ENTRIES, Segment
from tests.replog.log.batches import append, changed, client_batch, config, leader_batch, open_log
from tests.replog.log.directories.test_changes import fsyncs


def segment_of(directory: Path, base: int, *batches: bytes, interval: int) -> Segment:
    segment = Segment(directory, base)
    segment.create()
    for batch in batches:
        segment.add(parse_header(batch), interval)
        segment.write([batch])
        segment.write_indexes()
    return segment


def producers_in(directory: Path) -> LoadingProducers:
    return LoadingProducers(ProducerSnapshots(directory, print), [0], 0, clean=False)


def offset_entries(segment: Segment) -> list[tuple[int, int]]:
    return [tuple(segment.index.get(slot)) for slot in range(segment.index.count)]


def time_entries(segment: Segment) -> list[tuple[int, int]]:
    return [tuple(segment.time_index.get(slot)) for slot in range(segment.time_index.count)]


def numbered(count: int) -> list[bytes]:
    return [leader_batch(i, 0, b"test", timestamps=[1000 + i]) for i in range(count)]


def test_index_entries_are_written_some_at_a_time_and_always_found(tmp_path):
    """Divergence 16: the three files have the same number of them, and all after `write_indexes`."""
    log = open_log(tmp_path, index_interval_bytes=0)
    written = []
    for offset, batch in enumerate(numbered(20)):
        log.append_as_follower(batch)
        segment = log._segments.active
        assert segment.index.lookup(offset).offset == offset
        kept = {index.path.stat().st_size // index.layout.size for index in segment.indexes}
        assert len(kept) == 1
        written += kept
    assert written == [*[0] * UNWRITTEN_ENTRIES, *[UNWRITTEN_ENTRIES] * UNWRITTEN_ENTRIES, *[2 * UNWRITTEN_ENTRIES] * 4]
    log.write_indexes()
    assert [index.path.stat().st_size // index.layout.size for index in segment.indexes] == [19] * 3
    log.close()


def test_the_default_interval(tmp_path):
    """SG-1, S-W-S2."""
    assert offset_entries(segment_of(tmp_path, 0, *numbered(200), interval=4096)) == [
        (57, 4104),
        (114, 8208),
        (171, 12312),
    ]


@pytest.fixture
def w_s5(tmp_path: Path) -> Segment:
    """S-W-S5."""
    return segment_of(
        tmp_path,
        40,
        leader_batch(50, 0, b"hello", b"there", timestamps=[100, 90]),
        leader_batch(60, 0, b"alpha", b"beta", timestamps=[120, 110]),
        leader_batch(62, 0, b"x", timestamps=[105]),
        interval=10,
    )


def test_lookups(w_s5):
    """S-W-S5, SG-3, SG-15."""
    assert offset_entries(w_s5) == [(61, 85), (62, 169)]
    assert time_entries(w_s5) == [(120, 61)]
    assert (w_s5.size, w_s5.next_offset) == (238, 63)
    for position, offsets in ((0, (40, 50, 51)), (85, (52, 60, 61)), (169, (62,))):
        for offset in offsets:
            batch = w_s5.translate(offset)
            assert batch is not None
            assert batch[0] == position, offset
    assert w_s5.translate(63) is None


def with_offsets(base: int, last: int) -> BatchHeader:
    header = parse_header(client_batch(b"x", timestamps=[500]))
    return header._replace(base_offset=last, last_offset_delta=0) if base >= 0 else header


@pytest.mark.parametrize(
    ("base", "last", "fits"), [(0, -1, False), (100, 10, False), (0, 2**31, False), (0, 2**31 - 1, True), (5, 5, True)]
)
def test_offsets_must_fit_31_bits(tmp_path, base, last, fits):
    """S-W-S6, IX-4."""
    segment = segment_of(tmp_path, base, interval=4096)
    if fits:
        segment.add(with_offsets(base, last), 4096)
    else:
        with pytest.raises(IndexOffsetOverflow):
            segment.add(with_offsets(base, last), 4096)


@pytest.mark.parametrize(
    ("changes", "segment_bytes", "rolls"),
    [
        ({}, 138, False),
        ({}, 137, True),
        ({"max_timestamp": 1500}, 10**6, False),
        ({"max_timestamp": 1501}, 10**6, True),
        ({"max_timestamp": -1}, 10**6, False),
        ({"base_offset": 2**31 - 1}, 10**6, False),
        ({"base_offset": 2**31}, 10**6, True),
    ],
)
def test_should_roll(tmp_path, changes, segment_bytes, rolls):
    """SG-6, LG-4: a first batch of 69 bytes and timestamp 500, 1000 ms; decided before the write."""
    segment = segment_of(tmp_path, 0, leader_batch(0, 0, b"x", timestamps=[500]), interval=4096)
    header = parse_header(leader_batch(1, 0, b"x", timestamps=[500]))._replace(**changes)
    assert segment.should_roll(header, config(segment_bytes=segment_bytes, segment_ms=1000)) is rolls


def test_an_empty_segment_rolls_for_its_offset_range_alone(tmp_path):
    """SG-6."""
    segment = segment_of(tmp_path, 0, interval=4096)
    header = parse_header(leader_batch(1, 0, b"x", timestamps=[10**15]))
    assert not segment.should_roll(header, config(segment_bytes=10, segment_ms=1))
    assert segment.should_roll(header._replace(base_offset=2**31), config())


def test_recovery_ends_at_an_offset_that_does_not_fit_the_segment(tmp_path):
    """LD-4, changed: Kafka splits such a segment, which only its releases before 1.1 could write."""
    wide = changed(leader_batch(0, 0, b"a"), 23, ">i", 2**31 - 1)
    segment = Segment(tmp_path, 0)
    segment.path.write_bytes(wide + leader_batch(2**31, 0, b"b"))
    assert recover(segment, config(), -1, producers_in(tmp_path)) == 69
    assert (segment.size, segment.next_offset) == (69, 2**31)


@pytest.mark.parametrize(
    ("timestamp", "written", "age"),
    [(700, 900, 300), (1000, 900, 0), (1001, 900, 100), (2**63 - 1, 900, 100), (-1, 900, 100), (-1, 5000, 0)],
)
def test_a_time_that_lies_ahead_or_is_none_counts_as_when_the_file_was_written_lg_20(tmp_path, timestamp, written, age):
    segment = segment_of(tmp_path, 0, leader_batch(0, 0, b"x", timestamps=[timestamp]), interval=1)
    os.utime(segment.path, ns=(0, written * 1_000_000))
    assert segment.age_ms(segment.max_timestamp, 1000) == age
    assert segment.written_ms() == min(written, 1000), "what was written ahead of now counts from now on, for good"


def test_a_file_that_somebody_has_removed_is_old_and_no_fault_lg_20(tmp_path):
    segment = segment_of(tmp_path, 0, leader_batch(0, 0, b"x", timestamps=[-1]), interval=1)
    segment.path.unlink()
    assert segment.age_ms(segment.max_timestamp, 10**12) > 10**12


def test_a_flush_syncs_the_log_before_its_indexes(tmp_path):
    """SG-13: log, offset index, time index, then ours, for a segment and for the task of a log, which goes on with the
    producer snapshots of the segments that were begun (LG-5), and ends with its directory."""
    segment = segment_of(tmp_path, 0, *numbered(20), interval=100)
    with fsyncs() as synced:
        segment.flush()
    order = [".log", ".index", ".timeindex", ".digest"]
    assert [Path(path).suffix for path in synced] == order
    log = append(open_log(tmp_path / "log", segment_bytes=150), *[client_batch(b"a", b"b")] * 3)
    with fsyncs() as synced:
        log.flush()
    whole = [f"{base:020d}{suffix}" for base in (0, 2) for suffix in order]
    active = [f"{4:020d}.log"]  # a recovery rebuilds its indexes
    snapshots = [f"{base:020d}.snapshot" for base in (2, 4)]
    assert [Path(path).name for path in synced] == [*whole, *active, *snapshots, "log"]
    assert log.recovery_point == 6
