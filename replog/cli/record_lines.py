"""Records as lines of text or of JSON, out of `replog consume` and into `replog produce`."""

import base64
import binascii
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from replog.command.output import text_or_base64
from replog.errors import ErrorCode

if TYPE_CHECKING:
    from replog.client import Record

PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")  # Kafka's console consumer has this order
_TIMESTAMPS = ("CreateTime", "LogAppendTime")


class Fields(NamedTuple):
    """A line, parsed as a record to send."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def parse_printed(text: str) -> tuple[str, ...]:
    """Parse `key,value`. Raises INVALID_REQUEST."""
    fields = tuple(field.strip() for field in text.split(","))
    for field in fields:
        if field not in PRINTED:
            raise ErrorCode.INVALID_REQUEST.error(f"--print {field!r} is none of {', '.join(PRINTED)}")
    return fields


def printed(record: "Record", fields: Collection[str]) -> bytes:
    """Format a line like Kafka's console consumer: these of its fields, with tabs between them."""
    parts = {
        "timestamp": f"{_TIMESTAMPS[record.timestamp_type]}:{record.timestamp}".encode(),
        "partition": f"Partition:{record.partition}".encode(),
        "offset": f"Offset:{record.offset}".encode(),
        "headers": b",".join(name.encode() + b":" + _bytes(value) for name, value in record.headers) or b"NO_HEADERS",
        "key": _bytes(record.key),
        "value": _bytes(record.value),
    }
    return b"\t".join(parts[name] for name in PRINTED if name in fields) + b"\n"


def _bytes(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def to_json(record: "Record") -> bytes:
    """Format a record as one JSON object, which `from_json` parses. Bytes that are no text are base64."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "leader_epoch": record.leader_epoch,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def from_json(line: bytes) -> Fields:
    """Parse key, value, timestamp and headers; other fields are left out. Raises INVALID_RECORD."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or "value" not in fields:
            raise ValueError('no object with a "value"')
        timestamp = fields.get("timestamp")
        if timestamp is not None and type(timestamp) is not int:
            raise ValueError(f"timestamp {timestamp!r} is no number of milliseconds")
        headers = tuple((_text(name), _from_text_or_base64(value)) for name, value in fields.get("headers", ()))
        return Fields(
            _from_text_or_base64(fields.get("key")), _from_text_or_base64(fields["value"]), timestamp, headers
        )
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise ErrorCode.INVALID_RECORD.error(f"not as replog consume --format json writes it: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:60]!r} is no text")
    return value


def _from_text_or_base64(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(_text(value["base64"]), validate=True)
    return _text(value).encode()
