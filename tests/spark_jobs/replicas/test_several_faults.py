"""What a segment's check says of damages next to each other: docs/audit.md, "Several faults in one replica"."""

import struct
from dataclasses import replace

import pytest

from replog.log.batch import HEADER_SIZE, iterate_batches
from spark_jobs.replicas.faults import Fault
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.segment_check import check_segment
from tests.audit.replica_files import overwrite
from tests.spark_jobs.log_directories import Cluster, path_of, segments

NO_ENTRIES = {".index": b"", ".timeindex": b"", ".digest": b""}


@pytest.fixture
def segment(cluster: Cluster) -> Segment:
    """The middle one of three, without index entries: what is said of these is not the point here."""
    segment = segments(cluster)[1]
    for suffix, data in NO_ENTRIES.items():
        path_of(segment, suffix).write_bytes(data)
    return segment


def batches(segment: Segment) -> list[tuple[int, int, int, int]]:
    """First and last offset, position and size of each batch."""
    data = path_of(segment, ".log").read_bytes()
    return [(header.base_offset, header.last_offset, at, header.size) for at, header in iterate_batches(data)]


def cut(segment: Segment, position: int, size: int) -> Segment:
    """Without these bytes."""
    path = path_of(segment, ".log")
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[position + size :])
    return replace(segment, size=len(data) - size)


def told(segment: Segment) -> list[tuple[str, int, int]]:
    found = check_segment(segment, 0, crc=True)
    return [(item.fault, item.first, item.last) for item in found if isinstance(item, Fault)]


def test_what_is_missing_behind_a_rotten_batch_is_no_part_of_it(segment: Segment) -> None:
    """Its header says twice where it ends."""
    (first, last, position, _), (gone, until, at, size) = batches(segment)[3:5]
    overwrite(path_of(segment, ".log"), position + HEADER_SIZE + 5, b"\xff")
    assert told(cut(segment, at, size)) == [("BIT_ROT", first, last), ("GAP", gone, until)]


def test_a_rotten_batch_ends_where_it_says_whatever_the_next_one_says(segment: Segment) -> None:
    """A wrong base offset, that is: no CRC covers it (RB-2)."""
    (first, last, position, _), (other, until, at, _) = batches(segment)[3:5]
    overwrite(path_of(segment, ".log"), position + HEADER_SIZE + 5, b"\xff")
    overwrite(path_of(segment, ".log"), at, struct.pack(">q", 1 << 40))
    assert told(segment) == [("BIT_ROT", first, last), ("BIT_ROT", other, until)]


@pytest.mark.parametrize("says", [1 << 40, 0])
@pytest.mark.parametrize("missing", [-1, 1])
def test_a_wrong_base_offset_beside_missing_batches_is_rot_and_includes_them(
    segment: Segment, says: int, missing: int
) -> None:
    found = batches(segment)
    gone, wrong = found[4], found[4 - missing]
    overwrite(path_of(segment, ".log"), wrong[2], struct.pack(">q", says))
    place = min(gone[0], wrong[0]), max(gone[1], wrong[1])
    assert told(cut(segment, *gone[2:])) == [("BIT_ROT", *place), ("GAP", *place)]


def test_two_wrong_base_offsets_next_to_each_other_are_rot(segment: Segment) -> None:
    one, two = batches(segment)[3:5]
    for _, _, position, _ in (one, two):
        overwrite(path_of(segment, ".log"), position, b"\x40")
    assert told(segment) == [("BIT_ROT", *one[:2]), ("BIT_ROT", *two[:2])]


def test_a_last_batch_that_goes_back_is_rot_unless_it_is_the_one_before_again(segment: Segment) -> None:
    last = replace(segment, next_base=None)
    (first, until, position, size) = batches(segment)[-1]
    overwrite(path_of(segment, ".log"), position, struct.pack(">q", first - 4))
    assert told(last) == [("BIT_ROT", first, until)]
    log = path_of(segment, ".log")
    data = bytearray(log.read_bytes())
    data[position : position + 8] = struct.pack(">q", first)
    log.write_bytes(bytes(data) + data[position:])
    assert told(replace(last, size=len(data) + size)) == [("REPEATED", first, until)]


def test_a_wrong_length_that_ends_near_the_end_of_the_segment_takes_in_what_it_covers(segment: Segment) -> None:
    assert segment.next_base is not None
    first, _, position, _ = batches(segment)[-3]
    length = segment.size - 20 - position - 12  # too few bytes are left for a header
    overwrite(path_of(segment, ".log"), position + 8, struct.pack(">i", length))
    found = told(segment)
    assert {kind for kind, *_ in found} == {"BIT_ROT"}
    assert (found[0][1], found[-1][2]) == (first, segment.next_base - 1)


def test_an_entry_that_points_before_damaged_bytes_lies(segment: Segment) -> None:
    (_, last, position, _), (first, until, at, _) = batches(segment)[3:5]
    path_of(segment, ".index").write_bytes(struct.pack(">ii", last - segment.base, position + 9))
    overwrite(path_of(segment, ".log"), at + HEADER_SIZE + 5, b"\xff")
    assert told(segment) == [("INDEX_LIE", last, last), ("BIT_ROT", first, until)]
