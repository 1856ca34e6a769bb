"""Counts the entries of a request's lists on the wire, before it is parsed.

Two bytes are enough for an entry. Parsed it takes fifty times as much memory, and more with what is built from it."""

from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from replog.errors import ErrorCode, ReplogError
from replog.log.formats.varint import read_varint

OTHER_FIELDS = 16  # one message's, besides the entries of its lists: each takes time to skip
_LOOK = 64 << 10  # so many bytes at a time: the first ones reveal a message that is full of entries
_UNPACKED = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_NOT_LAST = bytes(range(0x80, 0x100))  # bytes of a number that are not its last


class _List(NamedTuple):
    name: str
    most: int
    first: int  # the first byte of its tag
    packed: bool  # one field may have many numbers, which are varints

    def may_exceed(self, data: bytes) -> bool:
        """Return True if more bytes than `most` look like the start of an entry, in a hundredth of the time that
        it takes to count."""
        if self.packed:
            return len(data) > self.most
        left = self.most
        for begin in range(0, len(data), _LOOK):
            end = begin + _LOOK
            left -= data.count(self.first, begin, end) + data.count(self.first | 0x80, begin, end)
            if left < 0:
                return True
        return False


class _Field(NamedTuple):
    """A list, or a message that contains some."""

    place: int  # a list's; -1: it is none
    inside: "dict[int, _Field]"
    simple: int  # shorter entries have nothing inside to check; 0: there are none


def _row(data: bytes, position: int, end: int, tag: int, simple: int, most: int) -> tuple[int, int]:
    """Count the simple entries with this tag of one byte that follow each other, up to `most`, and return their end, in
    a third of the time that they take one by one."""
    count = 0
    while count < most and position < end - 1 and data[position] == tag and (size := data[position + 1]) < simple:
        position += 2 + size
        count += 1
    return count, position


class Lists:
    """The lists of one type of messages: at most `most` entries in each, and at most `within` in each list that is
    inside of entries, all together."""

    def __init__(self, message: Descriptor, most: int, within: int = 0) -> None:
        self.most = most
        self._message = message.name
        self._within = within
        self._lists: list[_List] = []
        self._fields = self._fields_of(message, most)

    def __bool__(self) -> bool:
        return bool(self._lists)

    def _fields_of(self, message: Descriptor, most: int) -> dict[int, _Field]:
        fields = {}
        for field in message.fields:
            place, packed = -1, True
            if field.is_repeated:
                place, packed = len(self._lists), field.type not in _UNPACKED
                self._lists.append(_List(field.name, most, (field.number << 3 | 2) & 0x7F, packed))
            inside = {} if field.message_type is None else self._fields_of(field.message_type, self._within)
            if inside or place >= 0:
                fields[field.number] = _Field(place, inside, 0 if packed else 1 if inside else 0x80)
        return fields

    def check(self, data: bytes) -> None:
        """Raise INVALID_REQUEST at the first entry that is one too many. Raises DecodeError if `data` is no message and
        that is noticed."""
        if any(one.may_exceed(data) for one in self._lists):
            try:
                self._count(data, 0, len(data), self._fields, [one.most for one in self._lists])
            except IndexError:
                raise DecodeError("a number is cut short") from None

    def _count(self, data: bytes, position: int, end: int, fields: dict[int, _Field], left: list[int]) -> None:
        others = OTHER_FIELDS
        while position < end:
            tag, position = data[position], position + 1
            if tag > 0x7F:
                tag, position = read_varint(data, position - 1)
            begin, position = _value(data, position, tag & 7)
            field = fields.get((tag & 0xFFFFFFFF) >> 3)
            if field is None or field.place < 0:
                others -= 1
                if others < 0:
                    raise NamesTooMuch(self._message, data, f"{OTHER_FIELDS} other fields in one message")
            else:
                name, most, _, packed = self._lists[field.place]
                many = packed and tag & 7 == 2
                left[field.place] -= len(data[begin:position].translate(None, _NOT_LAST)) if many else 1
                if left[field.place] < 0:
                    raise NamesTooMuch(self._message, data, f"{most} {name}")
            if field is not None and tag & 7 == 2:
                if field.inside:
                    self._count(data, begin, position, field.inside, left)
                if field.simple and tag <= 0x7F:
                    count, position = _row(data, position, end, tag, field.simple, left[field.place])
                    left[field.place] -= count


class NamesTooMuch(ReplogError):
    """A request that names too much. Its sender may repeat it at once, so the answer may be delayed."""

    def __init__(self, message: str, data: bytes, most: str) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            f"the request names too much: {message} of {len(data)} bytes, with more than {most}; "
            "name less in one request",
        )


def _value(data: bytes, position: int, wire_type: int) -> tuple[int, int]:
    """Return begin and end of the value of a field, whose tag ends at `position`; the end may lie behind `data`.

    Raises IndexError if a number is cut short."""
    if wire_type == 2:
        size, begin = data[position], position + 1
        if size > 0x7F:
            size, begin = read_varint(data, position)
        return begin, begin + size
    if wire_type == 0:
        return position, position + 1 if data[position] < 0x80 else read_varint(data, position)[1]
    if wire_type == 1:
        return position, position + 8
    if wire_type == 5:
        return position, position + 4
    raise DecodeError(f"wire type {wire_type} is not protobuf")
