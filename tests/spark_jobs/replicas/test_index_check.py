"""Index entries as points and as blocks: what indexes may look like, and which way through a segment is taken."""

import struct

import pytest

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX
from replog.log.formats.batch import iterate_batches
from replog.log.indexes.index import OffsetIndex
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import read_index
from spark_jobs.replicas import index_check
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.faults import MAX_FAULTS, FileFault, capped
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.index_check import BYTES, Point, index_blocks, index_points
from spark_jobs.replicas.segment_check import SoundIndex, check_segment
from tests.damage.vocabulary import flip, overwrite
from tests.spark_jobs.log_directories import path_of, segments

CELLS = Cells(8, (10, 30), 2**62)


def test_the_short_way_is_taken_by_sound_segments(cluster, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the long way was taken")

    monkeypatch.setattr(index_check, "check_segment", never)
    for segment in segments(cluster):
        assert list(index_blocks(segment, 0, CELLS))


def test_the_short_way_gives_up_where_batches_overlap(cluster):
    segment = segments(cluster)[1]
    (_, before, _), (_, last, position) = list(read_index(segment, INDEX_SUFFIX).rows)[1:3]
    overwrite(path_of(segment, LOG_SUFFIX), position, struct.pack(">q", before))
    overwrite(path_of(segment, LOG_SUFFIX), position + 23, struct.pack(">i", last - before))
    faults = [item for item in index_blocks(segment, 0, CELLS) if isinstance(item, FileFault)]
    assert faults == [item for item in check_segment(segment, 0, crc=False) if isinstance(item, FileFault)] != []


def test_a_single_slot_of_zeros_may_be_unused_and_is_no_lie(cluster):
    """Preallocated (IX-2), or the entry of a batch at the base whose timestamps are 0."""
    segment = segments(cluster)[1]
    path_of(segment, INDEX_SUFFIX).write_bytes(bytes(OffsetIndex.layout.size))
    assert list(read_index(segment, INDEX_SUFFIX).rows) == []
    assert SoundIndex(segment, INDEX_SUFFIX).last_offset == -1


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, DIGEST_SUFFIX])
def test_every_entry_is_in_a_block(cluster, suffix):
    """Where the entries of two replicas differ, so does a block: then all of them are compared."""
    segment = segments(cluster)[1]
    path = path_of(segment, suffix)
    before = set(index_blocks(segment, 0, CELLS))
    for at in range(path.stat().st_size):
        flip(path, at, 1)
        after = set(index_blocks(segment, 0, CELLS))
        assert {item for item in after if isinstance(item, Block)} != {
            item for item in before if isinstance(item, Block)
        }, at
        flip(path, at, 1)


def batches(segment: ReplicaSegment) -> list[tuple[int, int, int]]:
    """First offset, last offset and position of each batch."""
    data = path_of(segment, LOG_SUFFIX).read_bytes()
    return [(header.base_offset, header.last_offset, position) for position, header in iterate_batches(data)]


def test_points_tell_the_bytes_up_to_an_offset_whatever_the_entry_pairs(cluster):
    """SG-2: as Kafka might, without digests."""
    segment = segments(cluster)[1]
    all_batches = batches(segment)
    path_of(segment, DIGEST_SUFFIX).unlink()
    entry = struct.pack(">ii", all_batches[4][1] - segment.base, all_batches[2][2])
    path_of(segment, INDEX_SUFFIX).write_bytes(entry)
    items = [item for item in index_points(segment, 0, []) if isinstance(item, Point)]
    points = {item.offset: item.value for item in items if item.kind == BYTES}
    assert points[all_batches[4][1]] == segment.bytes_before + all_batches[5][2]
    assert points[segment.base - 1] == segment.bytes_before
    assert points[all_batches[-1][1]] == segment.bytes_before + segment.size


def test_what_ends_below_an_aligned_offset_is_a_point_just_before_it(cluster):
    """Within a batch too: a replica whose batches are cut otherwise has another one there."""
    segment = segments(cluster)[1]
    first, last, position = batches(segment)[5]
    points = [item for item in index_points(segment, 0, [last]) if isinstance(item, Point)]
    assert (first < last, last - 1 in [item.offset for item in points]) == (True, True)
    assert segment.bytes_before + position in [item.value for item in points]


def test_faults_of_a_segment_are_capped_and_say_so():
    many = (Fault(Kind.HOLE, ".log", n, n, n, -1, "x") for n in range(10 * MAX_FAULTS))
    listed = list(capped(many))
    assert len(listed) == MAX_FAULTS
    assert "there may be more" in listed[-1].detail


def test_the_epoch_of_a_segments_first_batch_is_checked_though_no_entry_points_at_it(cluster):
    segment = segments(cluster)[1]
    overwrite(path_of(segment, LOG_SUFFIX), 12, struct.pack(">i", 7))
    items = list(index_points(segment, 0, []))
    assert "EPOCH_CACHE_LIE" in {item.fault for item in items if isinstance(item, FileFault)}
