"""The checks of one segment, without Spark: what indexes may look like, and what they may not."""

import struct
from pathlib import Path

import pytest

from replog.log.batch import iterate_batches
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.index_check import BYTES, Point, index_points
from spark_jobs.replicas.scan import MAX_FAULTS, Fault, capped
from spark_jobs.replicas.segment_check import Batch, check_segment
from tests.spark_jobs.log_directories import Cluster


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    """The middle segment of three."""
    cluster = Cluster(tmp_path)
    cluster.build(1, "t")
    (files,) = DirectoryStore(1, cluster.directories[1]).partitions(frozenset())
    assert files.error is None
    return files.segments[1]


def faults(segment: Segment) -> list[Fault]:
    found = [*check_segment(segment, 0, crc=True), *index_points(segment, 0, [])]
    return [item for item in found if isinstance(item, Fault)]


def path_of(segment: Segment, suffix: str) -> Path:
    assert isinstance(segment.store, DirectoryStore)
    return segment.store.path(segment, suffix)


def write_index(segment: Segment, entries: list[tuple[int, int]], rest: bytes = b"") -> None:
    data = b"".join(struct.pack(">ii", offset - segment.base, position) for offset, position in entries)
    path_of(segment, ".index").write_bytes(data + rest)


def batches(segment: Segment) -> list[tuple[int, int, int]]:
    """First offset, last offset and position of each batch."""
    data = path_of(segment, ".log").read_bytes()
    return [(header.base_offset, header.last_offset, position) for position, header in iterate_batches(data)]


def test_a_sound_segment_has_no_faults_and_every_batch(segment: Segment) -> None:
    assert faults(segment) == []
    found = [item for item in check_segment(segment, 0, crc=True) if isinstance(item, Batch)]
    assert [(item.base_offset, item.last_offset, item.position) for item in found] == batches(segment)


def test_entries_per_append_as_older_kafka_writes_them_are_sound(segment: Segment) -> None:
    # SG-2: the last offset of an append of several batches, with the position of its first.
    all_batches = batches(segment)
    write_index(segment, [(all_batches[n + 2][1], all_batches[n][2]) for n in (2, 5)])
    assert faults(segment) == []


def test_unused_slots_of_a_preallocated_index_are_no_entries(segment: Segment) -> None:
    _, offset, position = batches(segment)[3]
    write_index(segment, [(offset, position)], rest=bytes(800))  # W-I8
    assert faults(segment) == []


def test_points_tell_the_bytes_up_to_an_offset_whatever_the_entry_pairs(segment: Segment) -> None:
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


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda all_batches: [(all_batches[2][1], all_batches[2][2] + 5)], "bytes are|magic|length|begins|no batch"),
        (lambda all_batches: [(all_batches[2][0], all_batches[2][2])], "has offsets"),
        (lambda all_batches: [(all_batches[3][1], all_batches[2][2]), (all_batches[2][1], all_batches[3][2])], "order"),
        (lambda all_batches: [(all_batches[-1][1] + 9, all_batches[-1][2])], "beyond|has offsets"),
    ],
)
def test_an_entry_that_is_not_so_is_a_lie_at_both_levels(segment: Segment, damage: object, told: str) -> None:
    assert callable(damage)
    write_index(segment, damage(batches(segment)))
    found = faults(segment)
    assert len(found) == 2, found
    for fault in found:
        assert (fault.fault, fault.file) == ("INDEX_LIE", ".index"), fault
        assert any(word in fault.detail for word in told.split("|")), fault


def test_a_lie_does_not_make_liars_of_the_entries_behind_it(segment: Segment) -> None:
    all_batches = batches(segment)
    write_index(segment, [(all_batches[5][0], all_batches[5][2] + 1), *(all_batches[n][1:] for n in (3, 5, 7))])
    found = faults(segment)
    assert [fault.first for fault in found] == [all_batches[5][0]] * 2, found


def test_nothing_is_said_of_entries_for_what_cannot_be_read(segment: Segment) -> None:
    """Of an append that begins with a rotten batch (SG-2), and of all that a broken header leads away from."""
    all_batches = batches(segment)
    log = path_of(segment, ".log")
    sound = log.read_bytes()
    write_index(segment, [(all_batches[6][1], all_batches[4][2])])
    for at in (70, 16):  # a record, the magic
        position = all_batches[4][2] + at
        log.write_bytes(sound[:position] + b"\xee" + sound[position + 1 :])
        found = [item for item in check_segment(segment, 0, crc=True) if isinstance(item, Fault)]
        assert [(fault.fault, fault.first) for fault in found] == [("BIT_ROT", all_batches[4][0])], found


def test_bytes_behind_whole_entries_are_a_lie(segment: Segment) -> None:
    _, offset, position = batches(segment)[3]
    write_index(segment, [(offset, position)], rest=b"\x01\x02\x03")
    assert {fault.detail for fault in faults(segment)} == {"3 bytes after its entries"}


def test_faults_of_a_segment_are_capped_and_say_so() -> None:
    many = (Fault("GAP", ".log", n, n, n, -1, "x") for n in range(10 * MAX_FAULTS))
    listed = list(capped(many))
    assert len(listed) == MAX_FAULTS
    assert "there may be more" in listed[-1].detail
