"""The checks of one segment, without Spark: what indexes may look like, and what they may not."""

import struct
from dataclasses import replace

import pytest

from replog.log.batch import iterate_batches
from spark_jobs.replicas.faults import MAX_FAULTS, Fault, capped
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.index_check import BYTES, Point, index_points
from spark_jobs.replicas.segment_check import Batch, check_segment
from tests.audit.replica_files import index_entries, overwrite, set_index_entry
from tests.spark_jobs.log_directories import Cluster, path_of, segments


@pytest.fixture
def segment(cluster: Cluster) -> Segment:
    """The middle segment of three."""
    return segments(cluster)[1]


def faults(segment: Segment) -> list[Fault]:
    found = [*check_segment(segment, 0, crc=True), *index_points(segment, 0, [])]
    return [item for item in found if isinstance(item, Fault)]


def write_index(segment: Segment, entries: list[tuple[int, int]], rest: bytes = b"") -> None:
    """As Kafka might: without digests."""
    path_of(segment, ".digest").unlink(missing_ok=True)
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


def test_a_time_entry_may_name_any_record_of_its_batch_where_kafka_wrote_it(segment: Segment) -> None:
    """As leaders of Kafka 3.3 do. With digests beside it the segment is ours, and its entries have a batch's last."""
    times = path_of(segment, ".timeindex")
    layout = struct.Struct(">qi")
    timestamp, last = layout.unpack_from(times.read_bytes())
    first, *_ = next(one for one in batches(segment) if one[1] == segment.base + last)
    assert first < segment.base + last
    overwrite(times, 0, layout.pack(timestamp, first - segment.base))
    assert [(fault.file, fault.first) for fault in faults(segment)] == [(".timeindex", first)] * 2
    path_of(segment, ".digest").unlink()
    assert faults(segment) == []
    overwrite(times, 0, layout.pack(timestamp, first - 1 - segment.base))  # of the batch before
    assert [(fault.file, fault.first) for fault in faults(segment)] == [(".timeindex", first - 1)] * 2


def test_unused_slots_of_a_preallocated_index_are_no_entries(segment: Segment) -> None:
    _, offset, position = batches(segment)[3]
    write_index(segment, [(offset, position)], rest=bytes(800))  # S-W-I8
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


@pytest.mark.parametrize("crc", [True, False])
def test_a_rotten_batch_that_claims_more_offsets_makes_no_liars_and_no_gap(segment: Segment, crc: bool) -> None:
    all_batches = batches(segment)
    (first, last, position), following, resumed = all_batches[4:7]
    write_index(segment, [resumed[1:], (all_batches[7][1] + 1, all_batches[7][2])])  # the second one lies
    overwrite(path_of(segment, ".log"), position + 25, b"\x07")
    for behind in (b"", b"\xee"):
        if behind:
            overwrite(path_of(segment, ".log"), following[2] + 16, behind)
        found = [item for item in check_segment(segment, 0, crc=crc) if isinstance(item, Fault)]
        assert [(fault.fault, fault.first) for fault in found] == [
            ("BIT_ROT", first),
            ("INDEX_LIE", all_batches[7][1] + 1),
        ]
        assert behind or found[0].last == last


@pytest.mark.parametrize("crc", [True, False])
def test_a_rotten_last_batch_hides_no_entry_that_points_beyond_it(segment: Segment, crc: bool) -> None:
    all_batches = batches(segment)
    last, position = all_batches[-1][1:]
    write_index(segment, [(last, position), (last + 9, segment.size)])
    overwrite(path_of(segment, ".log"), position + 25, b"\x07")
    found = [item for item in check_segment(replace(segment, next_base=None), 0, crc=crc) if isinstance(item, Fault)]
    assert [(fault.fault, fault.file) for fault in found] == [("BIT_ROT", ".log"), ("INDEX_LIE", ".index")], found


def test_a_rotten_batch_is_named_without_reading_payload_elsewhere(segment: Segment) -> None:
    """Where a header does not fit, its own CRC says whether it, or what it contradicts, is wrong."""
    all_batches = batches(segment)
    first, last, position = all_batches[4]
    log, times = path_of(segment, ".log"), path_of(segment, ".timeindex")
    sound = log.read_bytes()
    write_index(segment, [])
    times.write_bytes(times.read_bytes()[-12:])  # of a later batch: an earlier one has a greater timestamp
    for at, mask in ((11, 0x08), (26, 0x04), (35, 0x40), (60, 0x80)):  # length, last offset, timestamp, count
        log.write_bytes(sound)
        overwrite(log, position + at, bytes([sound[position + at] ^ mask]))
        found = [item for item in check_segment(segment, 0, crc=False) if isinstance(item, Fault)]
        assert {f.fault for f in found} == {"BIT_ROT"}, (at, found)
        assert (found[0].first, found[0].position) == (first, position), (at, found)
        assert at in (11, 60) or [f.last for f in found] == [last], (at, found)  # these lead into nowhere


def test_a_rotten_batch_between_digest_entries_is_named_without_reading_all_payload(segment: Segment) -> None:
    path = path_of(segment, ".log")
    for first, last, position in batches(segment)[:-1]:
        sound = path.read_bytes()
        overwrite(path, position + 17, b"\x01\x02\x03\x04")  # the CRC
        found = [item for item in check_segment(segment, 0, crc=False) if isinstance(item, Fault)]
        assert [(f.fault, f.first, f.last, f.position) for f in found] == [("BIT_ROT", first, last, position)], found
        path.write_bytes(sound)


def test_an_unreadable_first_batch_shows_at_both_levels(segment: Segment) -> None:
    overwrite(path_of(segment, ".log"), 16, b"\x00")  # the magic
    assert [(fault.fault, fault.first) for fault in faults(segment)] == [("BIT_ROT", segment.base)] * 2


def test_an_entry_that_lies_makes_no_liar_of_a_time_entry_behind_it(segment: Segment) -> None:
    path = path_of(segment, ".timeindex")
    layout = struct.Struct(">qi")
    entries = list(layout.iter_unpack(path.read_bytes()))
    path.write_bytes(b"".join(layout.pack(*entry) for entry in [(entries[0][0], entries[1][1]), *entries[1:]]))
    found = [item for item in check_segment(segment, 0, crc=True) if isinstance(item, Fault)]
    assert [(fault.file, fault.position) for fault in found] == [(".timeindex", 0)], found


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("both", [False, True])
def test_an_entry_of_ours_is_for_the_batch_that_it_points_at(segment: Segment, by: int, both: bool) -> None:
    """At both levels. Beside it is a digest, and where none is the entry is not where it was written."""
    entries = [(segment.base + offset, position) for offset, position in index_entries(path_of(segment, ".index"))]
    all_batches = [one[1:] for one in batches(segment)]
    near = all_batches[all_batches.index(entries[1]) + by]
    assert near not in entries
    moved = near if both else (entries[1][0], near[1])
    set_index_entry(path_of(segment, ".index"), 1, (moved[0] - segment.base, moved[1]))
    assert [(fault.file, fault.position, fault.first) for fault in faults(segment)] == [(".index", 8, moved[0])] * 2
    path_of(segment, ".digest").unlink()
    assert len(faults(segment)) == 2 * (by == 1 and not both)  # of Kafka's it may be so, if it is not behind its batch


def test_a_digest_that_was_moved_is_no_lie_of_the_entry_beside_it(segment: Segment) -> None:
    path = path_of(segment, ".digest")
    offset, digest = index_entries(path)[1]
    for said in (offset - 1, offset + 1, 0, 9999):
        set_index_entry(path, 1, (said, digest))
        assert {fault.file for fault in faults(segment)} == {".digest"}, said


def test_an_append_that_would_run_into_the_next_is_a_lie(segment: Segment) -> None:
    """Each of the two entries alone may be so (SG-2)."""
    all_batches = batches(segment)
    write_index(segment, [(all_batches[4][1], all_batches[2][2]), (all_batches[5][1], all_batches[4][2])])
    found = faults(segment)
    assert [(fault.fault, fault.first) for fault in found] == [("INDEX_LIE", all_batches[4][1])] * 2, found


def test_a_digest_entry_is_for_the_end_of_a_batch_at_both_levels(segment: Segment) -> None:
    path = path_of(segment, ".digest")
    relative, digest = struct.unpack_from(">IQ", path.read_bytes())
    overwrite(path, 0, struct.pack(">IQ", relative - 1, digest))
    found = faults(segment)
    assert [(f.fault, f.file, f.first) for f in found] == [("INDEX_LIE", ".digest", segment.base + relative - 1)] * 2


def test_what_ends_below_an_aligned_offset_is_a_point_just_before_it(segment: Segment) -> None:
    """Within a batch too: a replica whose batches are cut otherwise has another one there."""
    first, last, position = batches(segment)[5]
    before = {item.offset: item.value for item in index_points(segment, 0, [last]) if isinstance(item, Point)}
    assert (first < last, last - 1 in before) == (True, True)
    values = [item.value for item in index_points(segment, 0, [last]) if isinstance(item, Point)]
    assert segment.bytes_before + position in values


def test_a_batch_that_comes_twice_is_no_hole(segment: Segment) -> None:
    first, _, position = batches(segment)[5]
    log = path_of(segment, ".log")
    data = log.read_bytes()
    log.write_bytes(data[:position] + data[position - 90 : position] + data[position:])  # batch 4 again
    found = [
        item for item in check_segment(replace(segment, size=len(data) + 90), 0, crc=True) if isinstance(item, Fault)
    ]
    (twice,) = [fault for fault in found if fault.fault == "REPEATED"]
    assert (twice.first, twice.last, twice.position) == (first - 2, first - 1, position)
    assert "GAP" not in {fault.fault for fault in found}


def test_segments_that_overlap_have_offsets_that_come_twice(segment: Segment) -> None:
    assert segment.next_base is not None
    for check in (
        check_segment(replace(segment, next_base=segment.next_base - 2), 0, crc=False),
        index_points(replace(segment, next_base=segment.next_base - 2), 0, []),
    ):
        (twice,) = [item for item in check if isinstance(item, Fault)]
        assert (twice.fault, twice.first, twice.last) == ("REPEATED", segment.next_base - 2, segment.next_base - 1)


def test_bytes_behind_whole_entries_are_a_lie(segment: Segment) -> None:
    _, offset, position = batches(segment)[3]
    write_index(segment, [(offset, position)], rest=b"\x01\x02\x03")
    assert {fault.detail for fault in faults(segment)} == {"3 bytes after its entries"}


def test_faults_of_a_segment_are_capped_and_say_so() -> None:
    many = (Fault("GAP", ".log", n, n, n, -1, "x") for n in range(10 * MAX_FAULTS))
    listed = list(capped(many))
    assert len(listed) == MAX_FAULTS
    assert "there may be more" in listed[-1].detail
