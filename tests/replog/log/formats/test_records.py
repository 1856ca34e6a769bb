"""Decoding records (2.2): RB-3, RB-4, compression (2.4), against an independent encoder."""

import pytest

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import parse_header
from replog.log.formats.records import iterate_records
from tests.replog.fuzz.targets import with_payload
from tests.replog.log.batches import changed, client_batch


def holding(payload: bytes, count: int) -> bytes:
    """A batch of any payload, its header right."""
    batch = with_payload(client_batch(b"x"), payload, 0)
    return changed(changed(batch, 23, ">i", max(count - 1, 0)), 57, ">i", count)


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
    batch = holding(payload, count)
    with pytest.raises(InvalidRecord):
        list(iterate_records(batch, parse_header(batch)))


def test_a_record_has_no_million_headers():
    """RB-3: a few kilobytes compressed, and gigabytes of headers when decoded."""
    headers = (1 << 20) + 1
    start = GOOD[1:-1] + b"\x82\x80\x80\x01"  # the zigzag of that many
    size = len(start) + 2 * headers
    length = bytes([(2 * size) >> shift & 0x7F | 0x80 for shift in (0, 7, 14)]) + bytes([(2 * size) >> 21])
    batch = holding(length + start + b"\0\1" * headers, 1)
    with pytest.raises(InvalidRecord, match="announces 1048577 headers"):
        list(iterate_records(batch, parse_header(batch)))
