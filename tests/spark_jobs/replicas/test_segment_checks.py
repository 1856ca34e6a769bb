"""The checks of one segment, without Spark: what indexes may look like, and what they may not."""

import struct

import pytest

from replog.log.formats.batch import iterate_batches
from replog.log_tools.checker.findings import Fault, Kind
from spark_jobs.replicas.faults import MAX_FAULTS, FileFault, capped
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.index_check import BYTES, Point, index_points
from spark_jobs.replicas.segment_check import check_segment
from tests.spark_jobs.log_directories import Cluster, path_of, segments


@pytest.fixture
def segment(cluster: Cluster) -> ReplicaSegment:
    """The middle segment of three."""
    return segments(cluster)[1]


def faults(segment: ReplicaSegment) -> list[FileFault]:
    items = [*check_segment(segment, 0, crc=True), *index_points(segment, 0, [])]
    return [item for item in items if isinstance(item, FileFault)]


def write_index(segment: ReplicaSegment, entries: list[tuple[int, int]], rest: bytes = b"") -> None:
    """As Kafka might: without digests."""
    path_of(segment, ".digest").unlink(missing_ok=True)
    data = b"".join(struct.pack(">ii", offset - segment.base, position) for offset, position in entries)
    path_of(segment, ".index").write_bytes(data + rest)


def batches(segment: ReplicaSegment) -> list[tuple[int, int, int]]:
    """First offset, last offset and position of each batch."""
    data = path_of(segment, ".log").read_bytes()
    return [(header.base_offset, header.last_offset, position) for position, header in iterate_batches(data)]


def test_points_tell_the_bytes_up_to_an_offset_whatever_the_entry_pairs(segment):
    all_batches = batches(segment)
    write_index(segment, [(all_batches[4][1], all_batches[2][2])])
    points = {
        item.offset: item.value
        for item in index_points(segment, 0, [])
        if isinstance(item, Point) and item.kind == BYTES
    }
    assert points[all_batches[4][1]] == segment.bytes_before + all_batches[5][2]
    assert points[segment.base - 1] == segment.bytes_before
    assert points[all_batches[-1][1]] == segment.bytes_before + segment.size


def test_what_ends_below_an_aligned_offset_is_a_point_just_before_it(segment):
    """Within a batch too: a replica whose batches are cut otherwise has another one there."""
    first, last, position = batches(segment)[5]
    before = {item.offset: item.value for item in index_points(segment, 0, [last]) if isinstance(item, Point)}
    assert (first < last, last - 1 in before) == (True, True)
    values = [item.value for item in index_points(segment, 0, [last]) if isinstance(item, Point)]
    assert segment.bytes_before + position in values


def test_faults_of_a_segment_are_capped_and_say_so():
    many = (Fault(Kind.HOLE, ".log", n, n, n, -1, "x") for n in range(10 * MAX_FAULTS))
    listed = list(capped(many))
    assert len(listed) == MAX_FAULTS
    assert "there may be more" in listed[-1].detail
