"""What is found in a `.log` depends on how the broker stopped, and on where the cleaner was: see also tests/damage."""

import struct

import pytest

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log_tools.verify import segment
from tests.damage.vocabulary import flip, overwrite, seal
from tests.replog.log.batches import leader_batch
from tests.replog.log_tools.verify.directories import faults, file, notes

LOG_22, LOG_34 = (f"{base:020d}.log" for base in (22, 34))


def test_holes_are_legal_where_the_cleaner_was(data, flights):
    """CL-8: said by --compacted, or by the cleaner's checkpoint."""
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes()[80:])
    assert faults(data) != []
    assert faults(data, compacted=True) == []
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nflights 0 20\n")
    assert faults(data) == []


def test_fewer_records_than_offsets_are_legal_where_the_cleaner_was(data, flights):
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes()[:80] + leader_batch(36, 4, b"z", timestamps=[40_005]))
    overwrite(log, 80 + 23, struct.pack(">i", 1))
    seal(log)
    assert faults(data) == [("BATCH_COUNT", LOG_34, 80, 36)]
    assert faults(data, compacted=True, deep=True) == []


def test_an_offset_beyond_all_others(data, flights):
    """Where holes are legal, it is told as out of its segment."""
    overwrite(file(flights, 34, "log"), 80, struct.pack(">q", 2**40))
    assert faults(data, compacted=True)[0] == ("OUTSIDE_SEGMENT", LOG_34, 80, 2**40)
    assert faults(data)[0] == ("HOLE", LOG_34, 80, 36)


@pytest.mark.parametrize(
    "tail", [bytes(100), bytes(17), leader_batch(38, 4, b"torn")[:-3], leader_batch(38, 4, b"t")[:30]]
)
def test_a_torn_end_is_normal_after_an_unclean_stop_alone(data, flights, tail):
    """S-W-D7, SG-8, RB-7"""
    log = file(flights, 34, "log")
    log.write_bytes(log.read_bytes() + tail)
    assert faults(data) == [("TORN_TAIL", LOG_34, 160, 38)]
    (data / CLEAN_SHUTDOWN).unlink()
    assert faults(data) == []
    assert notes(data) == [("UNCLEAN_TAIL", LOG_34, 160, 38)]


def test_only_the_newest_segment_may_be_torn(data, flights):
    (data / CLEAN_SHUTDOWN).unlink()
    log = file(flights, 22, "log")
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(100))
    assert faults(data) == [("SURPLUS", LOG_22, 636, 34)]
    log.write_bytes(whole[:556] + bytes(80))
    assert faults(data) == [("TORN_SEGMENT", LOG_22, 556, 32)]


def test_unknown_attributes_are_noted(data, flights):
    log = file(flights, 34, "log")
    overwrite(log, 80 + 21, b"\0\x80")
    seal(log)
    assert faults(data) == []
    assert notes(data) == [("UNKNOWN_ATTRIBUTES", LOG_34, 80, 36)]


def test_records_are_decoded_by_deep_alone(data, flights):
    """RB-3: the CRC is right, so the batch was written wrong."""
    log = file(flights, 34, "log")
    flip(log, 80 + 61, 0x40)
    seal(log)
    assert faults(data) == []
    assert faults(data, deep=True) == [("RECORDS", LOG_34, 80, 36)]


def test_a_batch_that_is_too_large_to_hold_is_not_decoded_and_that_is_said(data, flights, monkeypatch):
    """Its CRC is checked piece by piece."""
    log = file(flights, 34, "log")
    flip(log, 80 + 61, 0x40)
    seal(log)
    monkeypatch.setattr(segment, "MAX_BATCH_IN_MEMORY", 79)
    assert faults(data, deep=True) == []
    assert ("NOT_DECODED", LOG_34, 80, 36) in notes(data, deep=True)
    flip(log, 80 + 61, 0x40)
    assert [kind for kind, *_ in faults(data, deep=True)] == ["BATCH_CRC"]
