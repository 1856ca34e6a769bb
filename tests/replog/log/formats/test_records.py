"""Decoding records (2.2): RB-3, RB-4, compression (2.4), against an independent encoder."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from replog.errors import ReplogError
from replog.log.errors import InvalidRecord
from replog.log.formats.batch import parse_header
from replog.log.formats.records import LogRecord, iterate_records
from tests.replog.log.batches import client_batch, leader_batch


def with_payload(payload: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch of any payload, its header right."""
    head = bytearray(client_batch(b"x")[:61])
    struct.pack_into(">i", head, 8, 49 + len(payload))
    struct.pack_into(">h", head, 21, attributes)
    struct.pack_into(">i", head, 23, max(count - 1, 0))
    struct.pack_into(">i", head, 57, count)
    data = bytes(head) + payload
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


@given(
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200), st.integers(0, 2**45)),
        min_size=1,
        max_size=20,
    ),
    base=st.integers(0, 2**60),
    codec=st.integers(0, 4),
)
def test_what_the_independent_encoder_writes_is_read_back(records, base, codec):
    pairs = [(key, value) for key, value, _ in records]
    batch = leader_batch(base, 3, *pairs, timestamps=[time for _, _, time in records], codec=codec)
    assert list(iterate_records(batch, parse_header(batch))) == [
        LogRecord(base + delta, time, key, value, ()) for delta, (key, value, time) in enumerate(records)
    ]


GOOD = client_batch(b"abc")[61:]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (GOOD[:-1], 1),
        (GOOD + b"\x00", 1),
        (GOOD, 2),
        (GOOD + GOOD, 1),
        (b"\xff" * 12, 1),
        (b"\x0e" + GOOD[1:], 1),
        (b"\x02" + GOOD[1:], 1),
        (b"\x7f" + GOOD[1:], 1),
        (GOOD[:-1] + b"\x02", 1),
        (GOOD[:-1] + b"\x01", 1),
        (b"", 1),
    ],
)
def test_records_that_do_not_decode_are_invalid(payload, count):
    """RB-3."""
    batch = with_payload(payload, count)
    with pytest.raises(InvalidRecord):
        list(iterate_records(batch, parse_header(batch)))


def test_a_record_has_no_million_headers():
    """RB-3: a few kilobytes compressed, and gigabytes of headers when decoded."""
    headers = (1 << 20) + 1
    start = GOOD[1:-1] + b"\x82\x80\x80\x01"  # the zigzag of that many
    size = len(start) + 2 * headers
    length = bytes([(2 * size) >> shift & 0x7F | 0x80 for shift in (0, 7, 14)]) + bytes([(2 * size) >> 21])
    batch = with_payload(length + start + b"\0\1" * headers, 1)
    with pytest.raises(InvalidRecord, match="announces 1048577 headers"):
        list(iterate_records(batch, parse_header(batch)))


@given(st.binary(max_size=80), st.integers(0, 5), st.integers(0, 7))
def test_no_payload_raises_anything_else(payload, count, attributes):
    batch = with_payload(payload, count, attributes)
    try:
        list(iterate_records(batch, parse_header(batch)))
    except ReplogError:
        pass
