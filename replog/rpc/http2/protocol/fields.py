"""Checks that HTTP/2 allows a header list (RFC 9113 8.2 and 8.3), and reads what a connection needs of it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

FieldList = Sequence[tuple[bytes, bytes]]

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
