"""Messages to bytes and back, without copying record batches through protobuf.

A message with batches has `bytes records = 15` as its last field. It is sent as a protobuf head, the tag and length of
that field, and the payload as it is. It arrives as a head and a view of the payload. On the wire it is protobuf."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from replog.errors import ReplogError
from replog.log.formats.varint import read_varint, unsigned
from replog.log.offsets import Buffer
from replog.rpc.lists import OTHER_FIELDS, Lists, NamesTooMuch

M = TypeVar("M", bound=Message)

NO_LIMIT = sys.maxsize
RECORDS_FIELD = 15
RECORDS_TAG = RECORDS_FIELD << 3 | 2  # length-delimited


class WithRecords(NamedTuple, Generic[M]):
    """A message and the record batches that travel behind it, in pieces that are joined only for the wire."""

    head: M
    records: Sequence[Buffer] = ()


def carries_records(message_type: type[Message]) -> bool:
    field = message_type.DESCRIPTOR.fields_by_number.get(RECORDS_FIELD)
    return field is not None and field.name == "records"


def encode_with_records(message: "WithRecords[Message]") -> bytes:
    """Join head, tag, length and payload once; grpc accepts only `bytes`."""
    pieces = _pieces(message)
    return b"".join(pieces) if len(pieces) > 1 else bytes(pieces[0])


def pieces_of(encode: Callable[[Any], bytes], message: Any) -> Sequence[Buffer]:
    """Encode a message, in pieces if possible: the payload is copied nowhere."""
    return _pieces(message) if encode is encode_with_records else (encode(message),)


def _pieces(message: "WithRecords[Message]") -> Sequence[Buffer]:
    size = sum(map(len, message.records))
    head = message.head.SerializeToString()
    return (head + bytes([RECORDS_TAG]) + unsigned(size), *message.records) if size else (head,)


def same_fields(source: Any, names: Iterable[str], lists: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields that a message and an object of ours have under the same names; `lists` become tuples."""
    fields = {name: getattr(source, name) for name in names}
    for name in lists:
        fields[name] = tuple(getattr(source, name))
    return fields


class RecordsDecoder(Generic[M]):
    """Parses the head and slices the payload off; falls back to protobuf when `records` is not the last field."""

    def __init__(self, message_type: type[M], max_head: int = NO_LIMIT, most: int = NO_LIMIT) -> None:
        """Refuse a head of more than `max_head` bytes, or with more than `most` entries in its one list, before it is
        parsed."""
        self._message_type = message_type
        self._max_head = max_head
        self._most = most
        self._max_fields = most + OTHER_FIELDS

    def __call__(self, data: bytes) -> WithRecords[M]:
        try:
            split = self._split(data)
        except IndexError:
            raise DecodeError("a varint is cut short or too long") from None
        if split is None:
            head = self._message_type.FromString(data)
            records: bytes = head.records  # type: ignore[attr-defined]
            head.ClearField("records")
            return WithRecords(head, (records,) if records else ())
        start, payload = split
        head = self._message_type.FromString(data[:start])
        return WithRecords(head, (memoryview(data)[payload:],) if payload < len(data) else ())

    def _split(self, data: bytes) -> tuple[int, int] | None:
        """Find the start of the records field and of its payload: (len, len) without one, None if it is not the last.

        Raises IndexError if `data` ends inside of a number. Most numbers have one byte, and are read without a call."""
        position, end, fields, records = 0, len(data), 0, 0
        trailing = True
        while position < end:
            start = position
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = read_varint(data, start)
            wire_type = tag & 7
            if wire_type == 2:
                size = data[position]
                position += 1
                if size > 0x7F:
                    size, position = read_varint(data, position - 1)
                if tag >> 3 == RECORDS_FIELD:
                    if position + size == end and trailing:
                        return start, position
                    trailing = False
                    records += size
                position += size
            elif wire_type == 0:
                position += 1
                if data[position - 1] > 0x7F:
                    _, position = read_varint(data, position - 1)
            elif wire_type == 1:
                position += 8
            elif wire_type == 5:
                position += 4
            else:
                raise DecodeError(f"wire type {wire_type} is not protobuf")
            fields += 1
            if fields > self._max_fields or position - records > self._max_head:
                raise self._too_much(data, fields)
        return (end, end) if trailing else None

    def _too_much(self, data: bytes, fields: int) -> ReplogError:
        most = f"{self._max_head} bytes besides its records"
        if fields > self._max_fields:
            most = f"{self._most} entries and {OTHER_FIELDS} other fields"
        return NamesTooMuch(self._message_type.DESCRIPTOR.name, data, most)


class LimitedDecoder(Generic[M]):
    """Parses a message of at most `max_bytes`, unless its `lists` have too many entries."""

    def __init__(self, message_type: type[M], max_bytes: int, lists: Lists) -> None:
        self._message_type = message_type
        self._max_bytes = max_bytes
        self._lists = lists
        self._uncounted = lists.most if lists else NO_LIMIT  # so many bytes cannot hold too many entries

    def __call__(self, data: bytes) -> M:
        if len(data) > self._max_bytes:
            raise NamesTooMuch(self._message_type.DESCRIPTOR.name, data, f"{self._max_bytes} bytes")
        if len(data) > self._uncounted:
            self._lists.check(data)
        return self._message_type.FromString(data)
