"""Damage to a `.log` is found where it is, once, and told by what it is."""

import struct
from pathlib import Path

import pytest

from replog.log.batch import HEADER, parse_header
from replog.log.clean_shutdown import CLEAN_SHUTDOWN
from tests.replog.log.batches import leader_batch
from tests.replog.log.verify.directories import faults, file, findings_in, flip, notes, patch

LOG_0, LOG_14, LOG_22, LOG_34 = (f"{base:020d}.log" for base in (0, 14, 22, 34))


def test_a_flipped_payload_bit_is_found_at_its_batch(data: Path, flights: Path) -> None:
    """RB-1"""
    flip(file(flights, 22, "log"), 316 + 65)
    assert faults(data) == [("BATCH_CRC", LOG_22, 316, 26)]


@pytest.mark.parametrize(
    ("field", "byte", "bit", "expected"),
    [
        ("base offset", 7, 1, ("HOLE", LOG_22, 396, 28)),
        ("base offset", 7, 4, ("OFFSET_BACK", LOG_22, 396, 28)),
        ("base offset, high", 3, 1, ("HOLE", LOG_22, 396, 28)),
        ("base offset, sign", 0, 0x80, ("BATCH_HEADER", LOG_22, 396, 28)),
        ("length", 11, 0x10, ("BATCH_CRC", LOG_22, 396, 28)),
        ("length, past the end", 9, 1, ("BATCH_HEADER", LOG_22, 396, 28)),
        ("magic", 16, 1, ("BATCH_HEADER", LOG_22, 396, 28)),
        ("crc", 17, 1, ("BATCH_CRC", LOG_22, 396, 28)),
        ("attributes", 22, 1, ("BATCH_CRC", LOG_22, 396, 28)),
        ("last offset delta", 26, 4, ("BATCH_CRC", LOG_22, 396, 28)),
        ("max timestamp", 42, 1, ("BATCH_CRC", LOG_22, 396, 28)),
        ("count", 60, 1, ("BATCH_HEADER", LOG_22, 396, 28)),
    ],
)
def test_a_flipped_header_bit_is_found_at_its_batch(
    data: Path, flights: Path, field: str, byte: int, bit: int, expected: tuple[str, str, int, int]
) -> None:
    """RB-2: the CRC leaves out base offset, length, epoch and magic. S-W-D3, S-W-D6, S-W-D20, S-W-D21 seen offline."""
    flip(file(flights, 22, "log"), 396 + byte, bit)
    assert faults(data)[:1] == [expected], findings_in(data)
    assert len(faults(data)) <= 2, findings_in(data)  # a wrong length also leads to where no batch is


def test_a_flipped_leader_epoch_is_found(data: Path, flights: Path) -> None:
    """S-W-D19: by the batch after it, which goes back, and by the epoch checkpoint."""
    flip(file(flights, 22, "log"), 396 + 15, 8)
    assert ("EPOCH_BACK", LOG_22, 476, 30) in faults(data)
    assert ("EPOCHS", "leader-epoch-checkpoint", None, 28) in faults(data)


def test_after_a_break_the_walk_goes_on_at_the_next_batch_that_the_index_knows(data: Path, flights: Path) -> None:
    """Damage behind damage is found too."""
    log = file(flights, 22, "log")
    flip(log, 396 + 16)
    flip(log, 556 + 65)
    assert faults(data) == [("BATCH_HEADER", LOG_22, 396, 28), ("BATCH_CRC", LOG_22, 556, 32)]


def test_a_missing_batch_is_a_hole(data: Path, flights: Path) -> None:
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes()[80:])
    assert faults(data) == [("HOLE", LOG_34, 0, 34)]


def test_a_repeated_batch_goes_back(data: Path, flights: Path) -> None:
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes() + log.read_bytes()[80:])
    assert faults(data) == [("OFFSET_BACK", LOG_34, 160, 38)]


def test_a_missing_segment_is_a_hole(data: Path, flights: Path) -> None:
    for path in flights.glob(f"{14:020d}.*"):
        path.unlink()
    assert ("HOLE", LOG_22, None, 14) in faults(data)


def test_holes_are_legal_where_the_cleaner_was(data: Path, flights: Path) -> None:
    """CL-8: said by --compacted, or by the cleaner's checkpoint."""
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes()[80:])
    assert faults(data) != []
    assert faults(data, compacted=True) == []
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nflights 0 20\n")
    assert faults(data) == []


def test_fewer_records_than_offsets_are_legal_where_the_cleaner_was(data: Path, flights: Path) -> None:
    log = file(flights, 34, "log")
    one_of_two = leader_batch(36, 4, b"z", timestamps=[40_005])
    header = parse_header(one_of_two)._replace(last_offset_delta=1)
    log.write_bytes(log.read_bytes()[:80] + _with_crc(HEADER.pack(*header) + one_of_two[61:]))
    assert faults(data) == [("BATCH_COUNT", LOG_34, 80, 36)]
    assert faults(data, compacted=True, deep=True) == []


def test_a_batch_of_another_segment(data: Path, flights: Path) -> None:
    log = file(flights, 22, "log")
    log.write_bytes(log.read_bytes() + leader_batch(34, 4, b"x"))
    assert faults(data)[:1] == [("OUTSIDE_SEGMENT", LOG_22, 636, 34)]


def test_an_offset_beyond_all_others(data: Path, flights: Path) -> None:
    """Where holes are legal, it is told as out of its segment."""
    patch(file(flights, 34, "log"), 80, struct.pack(">q", 2**40))
    assert faults(data, compacted=True)[0] == ("OUTSIDE_SEGMENT", LOG_34, 80, 2**40)
    assert faults(data)[0] == ("HOLE", LOG_34, 80, 36)


@pytest.mark.parametrize(
    "tail", [bytes(100), bytes(17), leader_batch(38, 4, b"torn")[:-3], leader_batch(38, 4, b"t")[:30]]
)
def test_a_torn_end_is_normal_after_an_unclean_stop_alone(data: Path, flights: Path, tail: bytes) -> None:
    """S-W-D7, SG-8, RB-7"""
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes() + tail)
    assert faults(data) == [("TORN_TAIL", LOG_34, 160, 38)]
    (data / CLEAN_SHUTDOWN).unlink()
    assert faults(data) == []
    assert notes(data) == [("UNCLEAN_TAIL", LOG_34, 160, 38)]


def test_only_the_newest_segment_may_be_torn(data: Path, flights: Path) -> None:
    (data / CLEAN_SHUTDOWN).unlink()
    log = file(flights, 22, "log")
    log.write_bytes(log.read_bytes() + bytes(100))
    assert faults(data) == [("TORN_SEGMENT", LOG_22, 636, 34)]


def test_garbage_at_the_end_is_no_torn_batch(data: Path, flights: Path) -> None:
    (data / CLEAN_SHUTDOWN).unlink()
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes() + b"\x5a" * 100)
    assert faults(data) == [("BATCH_HEADER", LOG_34, 160, 38)]


def test_a_length_of_gigabytes_costs_no_memory(data: Path, flights: Path) -> None:
    log = file(flights, 34, "log")
    patch(log, 80 + 8, struct.pack(">i", 2**31 - 20))
    assert faults(data)[0] == ("TORN_TAIL", LOG_34, 80, 36)


def test_unknown_attributes_are_noted(data: Path, flights: Path) -> None:
    log = file(flights, 34, "log")
    batch = log.read_bytes()[80:]
    header = parse_header(batch)._replace(attributes=0x80)
    log.write_bytes(log.read_bytes()[:80] + _with_crc(HEADER.pack(*header) + batch[61:]))
    assert faults(data) == []
    assert notes(data) == [("UNKNOWN_ATTRIBUTES", LOG_34, 80, 36)]


def test_records_that_do_not_decode_are_found_by_deep(data: Path, flights: Path) -> None:
    """RB-3: the CRC is right, so whoever wrote the batch wrote it wrong."""
    log = file(flights, 34, "log")
    batch = bytearray(log.read_bytes()[80:])
    batch[61] ^= 0x40
    log.write_bytes(log.read_bytes()[:80] + _with_crc(bytes(batch)))
    assert faults(data) == []
    assert faults(data, deep=True) == [("RECORDS", LOG_34, 80, 36)]


def test_compressed_records_that_do_not_decompress_are_found_by_deep(data: Path, flights: Path) -> None:
    """2.4"""
    log = file(flights, 14, "log")
    content = bytearray(log.read_bytes())
    content[63] ^= 0xFF
    log.write_bytes(_with_crc(bytes(content[:97])) + content[97:])
    assert ("RECORDS", LOG_14, 0, 14) not in faults(data)
    assert ("RECORDS", LOG_14, 0, 14) in faults(data, deep=True)


def test_a_timestamp_that_no_record_has_is_found_by_deep(data: Path, flights: Path) -> None:
    """RB-4"""
    log = file(flights, 34, "log")
    batch = log.read_bytes()[80:]
    header = parse_header(batch)._replace(max_timestamp=40_999)
    log.write_bytes(log.read_bytes()[:80] + _with_crc(HEADER.pack(*header) + batch[61:]))
    assert faults(data) == []
    assert faults(data, deep=True) == [("TIMESTAMPS", LOG_34, 80, 36)]


def _with_crc(batch: bytes) -> bytes:
    """The batch with the CRC that its bytes make."""
    from crc32c import crc32c

    return HEADER.pack(*parse_header(batch)._replace(crc=crc32c(batch[21:]))) + batch[61:]
