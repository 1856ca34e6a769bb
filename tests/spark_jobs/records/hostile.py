"""Batches that one bad client may write: a broker looks at headers and CRCs alone, and takes them. In a log each stands
between two good batches of one record.
"""

from collections.abc import Sequence
from typing import NamedTuple

from replog.client.records import encode_batch
from replog.log.formats.batch import CONTROL, HEADER, HEADER_SIZE, parse_header, with_crc
from replog.log.formats.compression import compress
from replog.log.formats.records import MAX_HEADERS
from replog.log.formats.varint import varint

NOW_MS = 1_700_000_000_000
GOOD = bytes(encode_batch([(NOW_MS, None, b"good", ())]))


def spoiled(section: bytes, count: int, last_delta: int | None = None, attributes: int = 0) -> bytes:
    """A batch whose CRC is right and whose records are these bytes."""
    header = parse_header(encode_batch([(NOW_MS, None, b"x", ())]))
    delta = max(0, count - 1) if last_delta is None else last_delta
    header = header._replace(
        length=49 + len(section), records_count=count, last_offset_delta=delta, attributes=attributes
    )
    return HEADER.pack(*with_crc(header, section)) + section


def record(
    delta: int,
    *,
    time: bytes = b"\0",
    key: bytes = b"\1",
    value: bytes = b"\2x",
    headers: bytes = b"\0",
    behind: bytes = b"",
) -> bytes:
    body = b"\0" + time + varint(delta) + key + value + headers + behind
    return varint(len(body)) + body


def batch(*records: bytes) -> bytes:
    return spoiled(b"".join(records), len(records))


class Row(NamedTuple):
    batch: bytes
    reason: str = ""  # why it is refused; "": it is not
    left: Sequence[int] = ()  # records of the batch that are read on request
    undated: Sequence[int] = ()  # those among them whose timestamps are null then


def _time(ms: int) -> bytes:
    return batch(record(0), record(1, time=varint(ms - NOW_MS)), record(2))


DATED = "the record at offset 2 is dated {} ms since 1970, and Spark holds no such time"
ONE = "the record at offset {} does not decode: "
ALL = "the record at offset 1 does not decode: "
SIZE, VARINT = "the size of a field is wrong", "a varint is wrong"
FIRST_AND_LAST = [0, 2]


def _one(reason: str, **wrong: bytes) -> Row:
    """The second of three records is wrong, the others are read."""
    return Row(batch(record(0), record(1, **wrong), record(2)), ONE.format(2) + reason, FIRST_AND_LAST)


def _headers(count: int, each: bytes = b"\0\1") -> bytes:
    return varint(count) + each * count


HOSTILE = {
    "a time in nanoseconds": Row(_time(NOW_MS * 10**6), DATED.format(NOW_MS * 10**6), [0, 1, 2], [1]),
    "the greatest time": Row(_time(2**63 - 1), DATED.format(2**63 - 1), [0, 1, 2], [1]),
    "the least time": Row(_time(-(2**63) + NOW_MS), DATED.format(-(2**63) + NOW_MS), [0, 1, 2], [1]),
    "a time of more than 64 bits": Row(
        batch(record(0), record(1, time=varint(2**63 - 1)), record(2)), DATED.format(2**63 - 1), [0, 1, 2], [1]
    ),
    "no time": Row(_time(-1), "", [0, 1, 2]),
    "a time before the year 1": Row(_time(-70_000_000_000_000), "", [0, 1, 2], [1]),
    "all times in nanoseconds": Row(
        bytes(encode_batch([(NOW_MS * 10**6, None, b"x", ())] * 3)),
        f"the record at offset 1 is dated {NOW_MS * 10**6} ms",
        [0, 1, 2],
        [0, 1, 2],
    ),
    "nulls": Row(batch(record(0, value=b"\1"), record(1, key=b"\0", value=b"\0")), "", [0, 1]),
    "a key and a value of a MiB": Row(
        batch(record(0, key=varint(1 << 20) + bytes(1 << 20), value=varint(1 << 20) + bytes(1 << 20))), "", [0]
    ),
    "records of more than a group": Row(
        spoiled(compress(4, b"".join(record(n) for n in range(40_000))), 40_000, attributes=4), "", range(40_000)
    ),
    "one of more than a group is wrong": Row(
        spoiled(
            compress(4, b"".join(record(n, behind=b"\0" if n == 30_000 else b"") for n in range(40_000))),
            40_000,
            attributes=4,
        ),
        ONE.format(30_001) + "its size is wrong",
        [n for n in range(40_000) if n != 30_000],
    ),
    "a key of less than nothing": _one(SIZE, key=b"\3"),
    "a key of 2^62 bytes": _one(SIZE, key=varint(2**62)),
    "a varint without an end": _one(VARINT, time=b"\xff" * 19),
    "bytes behind a record": _one("its size is wrong", behind=b"\0"),
    "no headers, and one less": _one("the number of its headers is wrong", headers=b"\1"),
    "a million headers that are not there": _one(VARINT, headers=varint(MAX_HEADERS)),
    "more headers than one may have": _one("the number of its headers is wrong", headers=varint(MAX_HEADERS + 1)),
    "a header without a key": _one("the key of a header is wrong", headers=b"\2\1\1"),
    "headers that are wrong in each of many": Row(
        batch(*(record(n, headers=varint(MAX_HEADERS)) for n in range(200))), ONE.format(1) + VARINT
    ),
    "a header whose key is not UTF-8": Row(batch(record(0, headers=b"\2\4a\xff\1")), "", [0]),
    "a hundred thousand headers": Row(batch(record(0, headers=_headers(100_000))), "", [0]),
    "many headers in each of many": Row(batch(*(record(n, headers=_headers(500)) for n in range(200))), "", range(200)),
    "an offset beyond the batch": Row(
        batch(record(0), record(9), record(2)), ONE.format(2) + "its offset is wrong", FIRST_AND_LAST
    ),
    "an offset before the batch": Row(
        batch(record(0), record(-1), record(2)), ONE.format(2) + "its offset is wrong", FIRST_AND_LAST
    ),
    "one offset twice": Row(
        batch(record(0), record(0), record(2)), ONE.format(1) + "the order of its offset is wrong", FIRST_AND_LAST
    ),
    "offsets that go back": Row(
        batch(record(2), record(1), record(0)), ONE.format(2) + "the order of its offset is wrong", [2]
    ),
    "no bytes": Row(spoiled(b"", 1), ALL + "1 records do not fill the 0 bytes"),
    "only bits": Row(spoiled(b"\xff" * 30, 1), ALL + "the size of a record is longer than 5 bytes"),
    "sizes of less than nothing": Row(spoiled(b"\1" * 21, 3), "the records from offset 1 to 3 do not decode"),
    "fewer records than it says": Row(
        spoiled(record(0) * 30, 33), "the records from offset 1 to 33 do not decode: 33 records do not fill"
    ),
    "more records than it says": Row(spoiled(record(0) * 3, 2), "the records from offset 1 to 2 do not decode"),
    "two thousand million records in few bytes": Row(
        spoiled(record(0), 2**31 - 1), f"the records from offset 1 to {2**31 - 1} do not decode"
    ),
    "a bomb": Row(spoiled(compress(4, bytes(300 << 20)), 1, attributes=4), ALL + ".* of zstd do not decompress"),
    "a marker that is none": Row(spoiled(b"\xff" * 30, 1, attributes=CONTROL)),
    **{
        f"what is not of codec {codec}": Row(
            spoiled(b"\x82SNAPPY\0" + bytes(9), 1, attributes=codec), ALL + ".*(do not decompress|codec|snappy)"
        )
        for codec in range(1, 8)
    },
}


def laid_out(batches: Sequence[bytes], base_offset: int = 0) -> bytes:
    """The batches as a leader lays them out, one after the other."""
    log = bytearray()
    for each in batches:
        header = parse_header(each)._replace(base_offset=base_offset)
        base_offset = header.next_offset
        log += HEADER.pack(*header) + each[HEADER_SIZE:]
    return bytes(log)
