"""Records as lines: what is written is read again, and what is not understood is refused."""

import pytest

from replog.cli.record_lines import PRINTED, from_json, parse_printed, printed, to_json
from replog.client import Record
from replog.errors import ErrorCode, ReplogError

HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None), ("raw", b"\xff")]
FULL = Record("t", 2, 7, 1700, 0, b"k\xff", "wört".encode(), HEADERS, 3)
EMPTY = Record("t", 0, 0, 5, 1, None, None, [], 0)


@pytest.mark.parametrize("record", [FULL, EMPTY])
def test_what_is_written_as_json_is_sent_as_it_was(record: Record):
    fields = from_json(to_json(record))
    assert fields == (record.key, record.value, record.timestamp, tuple(record.headers))


def test_a_line_may_leave_out_everything_but_the_value():
    assert from_json(b'{"value": "v"}') == (None, b"v", None, ())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"plain",
        b"[]",
        b"{}",
        b"\xff",
        b'{"value": 5}',
        b'{"value": {"base64": "not base64!"}}',
        b'{"value": {"base64": 5}}',
        b'{"value": "v", "timestamp": "now"}',
        b'{"value": "v", "timestamp": true}',
        b'{"value": "v", "headers": 5}',
        b'{"value": "v", "headers": [["name"]]}',
        b'{"value": "v", "headers": [[5, "x"]]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_record_is_refused(line: bytes):
    with pytest.raises(ReplogError, match="not as replog consume --format json writes it") as refused:
        from_json(line)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_fields_are_printed_as_kafkas_console_consumer_does():
    everything = b"CreateTime:1700\tPartition:2\tOffset:7\th:1,h:null,raw:\xff\tk\xff\tw\xc3\xb6rt\n"
    assert printed(FULL, PRINTED) == everything
    assert printed(FULL, parse_printed("value, key")) == b"k\xff\tw\xc3\xb6rt\n"
    assert printed(EMPTY, ("timestamp", "headers", "value")) == b"LogAppendTime:5\tNO_HEADERS\tnull\n"
    with pytest.raises(ReplogError, match="--print 'colour' is none of timestamp, partition"):
        parse_printed("key,colour")
