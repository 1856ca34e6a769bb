"""Header blocks (HPACK, RFC 7541), and checks that HTTP/2 allows what is in them (RFC 9113 8.2 and 8.3).

Tables and Huffman codes are those of `hpack`; the rest is here, for speed.

This side's blocks have no state: fields of the static table, and literals that nobody has to remember. So a field is
encoded once for all connections. The peer's may use the dynamic table; a block that does not change the table means the
same next time, and is looked up."""

import re
from functools import lru_cache
from typing import NamedTuple

from hpack import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from replog.log.formats.varint import unsigned
from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.events import FieldList
from replog.rpc.http2.protocol.frames import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    PROTOCOL_ERROR,
    ConnectionFailure,
)

NO_TABLE = b"\x20"  # begins the first block: this encoder has a dynamic table of 0 bytes (RFC 7541 4.2)
_FIELD_OVERHEAD = 32  # RFC 9113 6.5.2
_KNOWN_BLOCKS, _KNOWN_BYTES = 64, 512  # a connection remembers so many blocks of so many bytes
_MAX_CACHED_FIELD = 256

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_WRONG_VALUE = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
_OF_A_CONNECTION = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
_STATUS = re.compile(rb"[1-9][0-9][0-9]")
_LENGTH = re.compile(rb"[0-9]{1,18}")


REQUEST, RESPONSE, TRAILERS = range(3)  # the use of a header list
_PSEUDO = (frozenset((b":method", b":scheme", b":path", b":authority")), frozenset((b":status",)), frozenset[bytes]())


class Malformed(Exception):
    """A header list that costs the stream, not the connection (RFC 9113 8.1.1)."""


class Wanted(NamedTuple):
    """The part of a header list that the connection itself needs."""

    content_length: int | None
    informational: bool  # a status 1xx: the answer follows
    compressed: bool  # messages may be, in a way unknown here


_NOTHING = Wanted(None, False, False)


def check_field(name: bytes, value: bytes) -> None:
    """Check a header, also a pseudo-header. Raises Malformed."""
    if not _NAME.fullmatch(name, 1 if name[:1] == b":" else 0):
        raise Malformed(f"a header's name is {name[:40]!r}; it has to be a token in lower case")
    if _WRONG_VALUE.search(value):
        raise Malformed(f"the value of header {name[:40]!r} has a space around it, or NUL, CR or LF in it")


def check_fields(fields: FieldList, kind: int) -> Wanted:
    """Check a header list, and read it. Raises Malformed."""
    pseudo: dict[bytes, bytes] = {}
    lengths: set[bytes] = set()
    regular = False
    for name, value in fields:
        check_field(name, value)
        if name[0] == 0x3A:
            if regular or name in pseudo or name not in _PSEUDO[kind]:
                raise Malformed(f"{name[:40]!r} comes twice, late, or where it does not belong")
            pseudo[name] = value
            continue
        regular = True
        if name in _OF_A_CONNECTION or (name == b"te" and value != b"trailers"):
            raise Malformed(f"header {name!r} is not for HTTP/2")
        if name == b"content-length":
            lengths.add(value)
    if kind == REQUEST and (
        not pseudo.get(b":method") or not pseudo.get(b":scheme") or not pseudo.get(b":path", b"").startswith(b"/")
    ):
        raise Malformed("a request has to have :method, :scheme and a :path that begins with /")
    status = pseudo.get(b":status", b"")
    if kind == RESPONSE and not _STATUS.fullmatch(status):
        raise Malformed(f"an answer has to have a :status of three digits, not {status[:40]!r}")
    if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise Malformed("content-length is no number, or two")
    compressed = any(name == b"grpc-encoding" and value != b"identity" for name, value in fields)
    return Wanted(int(lengths.pop()) if lengths else None, status[:1] == b"1", compressed)


def encode_fields(fields: FieldList) -> bytes:
    """Return a header block; that of a tuple is remembered. Raises ValueError for a field that may not be sent."""
    return _encode_tuple(fields) if type(fields) is tuple else _encode_fields(fields)


def _encode_fields(fields: FieldList) -> bytes:
    return b"".join(
        [_encode_known(*field) if len(field[1]) <= _MAX_CACHED_FIELD else _encode(*field) for field in fields]
    )


def _encode(name: bytes, value: bytes) -> bytes:
    try:
        check_field(name, value)
    except Malformed as error:
        raise ValueError(str(error)) from None
    indexes = HeaderTable.STATIC_TABLE_MAPPING.get(name)
    if indexes is None:
        return b"\x00" + _literal(name) + _literal(value)
    if value in indexes[1]:
        return _number(indexes[1][value], 0x80, 0x7F)
    return _number(indexes[0], 0x00, 0x0F) + _literal(value)


_encode_known = lru_cache(4096)(_encode)
_encode_tuple = lru_cache(512)(_encode_fields)


def _literal(text: bytes) -> bytes:
    return _number(len(text), 0x00, 0x7F) + text


def _number(number: int, pattern: int, mask: int) -> bytes:
    """Encode by RFC 7541 5.1."""
    if number < mask:
        return bytes((pattern | number,))
    return bytes((pattern | mask,)) + unsigned(number - mask)


class HeaderBlock(NamedTuple):
    """A received block. The list is shared between equal blocks: do not change it."""

    fields: list[tuple[bytes, bytes]]
    wanted: Wanted
    code: int = NO_ERROR  # the code of the stream's end, if it cannot go on
    problem: str = ""


class HeaderDecoder:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._table = HeaderTable()
        self._changes = 0  # changes of the table by the current block
        # the keys are a block's use and its bytes; valid while the table stays as it is
        self._known: dict[tuple[int, bytes], HeaderBlock] = {}

    def decode(self, block: bytes, kind: int) -> HeaderBlock:
        """Decode a block. Raises ConnectionFailure if the table would be lost."""
        key = (kind, block)
        if (known := self._known.get(key)) is not None:
            return known
        self._changes = 0
        try:
            fields, size = self._decode(block)
        except (HPACKError, IndexError) as error:
            raise ConnectionFailure(COMPRESSION_ERROR, f"a header block cannot be read: {error}") from None
        if size > self._bounds.header_list:
            text = f"headers of {size} bytes; at most {self._bounds.header_list} are taken"
            decoded = HeaderBlock([], _NOTHING, ENHANCE_YOUR_CALM, text)
        else:
            try:
                decoded = HeaderBlock(fields, check_fields(fields, kind))
            except Malformed as error:
                decoded = HeaderBlock([], _NOTHING, PROTOCOL_ERROR, str(error))
        if self._changes:
            self._known.clear()
        elif len(block) <= _KNOWN_BYTES:
            if len(self._known) >= _KNOWN_BLOCKS:
                self._known.clear()
            self._known[key] = decoded
        return decoded

    def _decode(self, block: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
        fields: list[tuple[bytes, bytes]] = []
        size, position = 0, 0
        while position < len(block):
            byte = block[position]
            if byte >= 0x80:  # indexed
                index, position = _read_number(block, position, 0x7F)
                field = self._table.get_by_index(index)
            elif byte & 0x60 == 0x20:  # the table's size
                if fields:
                    raise HPACKError("the table's size changes after a field")
                maxsize, position = _read_number(block, position, 0x1F)
                if maxsize > HeaderTable.DEFAULT_SIZE:
                    raise HPACKError(f"a table of {maxsize} bytes; at most {HeaderTable.DEFAULT_SIZE} were allowed")
                self._changes += 1
                self._table.maxsize = maxsize
                continue
            else:  # a literal, which may be remembered
                index, position = _read_number(block, position, 0x3F if byte & 0x40 else 0x0F)
                if index:
                    name = self._table.get_by_index(index)[0]
                else:
                    name, position = _read_text(block, position)
                value, position = _read_text(block, position)
                field = name, value
                if byte & 0x40:
                    self._changes += 1
                    self._table.add(name, value)
            fields.append(field)
            size += len(field[0]) + len(field[1]) + _FIELD_OVERHEAD
            if size > self._bounds.header_block:
                raise ConnectionFailure(
                    ENHANCE_YOUR_CALM, f"headers of over {self._bounds.header_block} bytes in a block of {len(block)}"
                )
        return fields, size


def _read_number(block: bytes, position: int, mask: int) -> tuple[int, int]:
    number = block[position] & mask
    position += 1
    if number < mask:
        return number, position
    for shift in range(0, 35, 7):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise HPACKError("a number is too long")


def _read_text(block: bytes, position: int) -> tuple[bytes, int]:
    size, start = _read_number(block, position, 0x7F)
    end = start + size
    if end > len(block):
        raise HPACKError("a text is cut short")
    text = block[start:end]
    if block[position] & 0x80:
        text = _huffman(text) if size <= _MAX_CACHED_FIELD else decode_huffman(text)
    return text, end


_huffman = lru_cache(1024)(decode_huffman)
