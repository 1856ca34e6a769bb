"""Control batches (2.3): markers as bytes, and what other bytes are taken for."""

import struct

import pytest
from aiokafka.record.memory_records import MemoryRecords

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CONTROL, parse_header
from replog.log.formats.control_batch import (
    EndTransactionMarker,
    build_end_transaction_marker,
    end_transaction_marker,
    marker_or_none,
)
from tests.replog.log.batches import changed, client_batch, stamped
from tests.replog.log.formats.test_batch import W_B4


def control(key: bytes | None, value: bytes | None) -> bytes:
    """A control batch with any key and value."""
    return changed(client_batch((key, value), producer_id=9, producer_epoch=3, base_sequence=0), 21, ">h", 0x30)


def read(data: bytes) -> EndTransactionMarker | None:
    return end_transaction_marker(data, parse_header(data))


def test_a_commit_marker():
    """S-W-B4."""
    marker = EndTransactionMarker(committed=True, coordinator_epoch=6)
    data = build_end_transaction_marker(marker, producer_id=9, producer_epoch=3, timestamp=123)
    assert stamped(data, 7, 4) == W_B4
    assert read(stamped(data, 7, 4)) == marker


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, 2**31 - 1])
def test_markers_are_what_an_independent_reader_takes_them_for(committed, coordinator_epoch):
    marker = EndTransactionMarker(committed, coordinator_epoch)
    data = build_end_transaction_marker(marker, producer_id=2**62, producer_epoch=2**15 - 1, timestamp=2**40)
    assert read(data) == marker
    batch = MemoryRecords(data).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert (batch.is_control_batch, batch.is_transactional) == (True, True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**62, 2**15 - 1, -1)
    (record,) = batch
    assert (record.timestamp, record.key) == (2**40, struct.pack(">hh", 0, committed))


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 7, -1, 100])
def test_control_records_of_other_types_end_no_transaction(kind):
    assert read(control(struct.pack(">hh", 0, kind), b"")) is None


def test_a_later_version_is_read_as_the_first():
    data = control(struct.pack(">hh", 3, 0) + b"more", struct.pack(">hi", 5, 77) + b"more")
    assert read(data) == EndTransactionMarker(committed=False, coordinator_epoch=77)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"\0\0\0", b"\0" * 6, "has 3 bytes, fewer than 4"),
        (None, b"\0" * 6, "has 0 bytes, fewer than 4"),
        (struct.pack(">hh", -1, 0), b"\0" * 6, "has version -1"),
        (struct.pack(">hh", 0, 1), b"\0" * 5, "a value of 5 bytes, fewer than 6"),
        (struct.pack(">hh", 0, 1), None, "a value of 0 bytes, fewer than 6"),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 0), "has version -1"),
    ],
)
def test_a_malformed_control_record_is_refused(key, value, message):
    data = control(key, value)
    with pytest.raises(InvalidRecord, match=message):
        read(data)
    assert marker_or_none(data, parse_header(data)) is None, "in a log already it can only be passed over"


def test_a_control_batch_that_compaction_has_emptied_ends_nothing():
    data = bytearray(W_B4[:61])
    struct.pack_into(">i", data, 8, 49)
    struct.pack_into(">i", data, 57, 0)
    assert read(bytes(data)) is None


def test_data_is_no_marker():
    data = client_batch((b"\0\0\0\1", b"\0" * 6), producer_id=9, producer_epoch=3, base_sequence=0)
    assert not parse_header(data).attributes & CONTROL
    assert marker_or_none(data, parse_header(data)) is None
