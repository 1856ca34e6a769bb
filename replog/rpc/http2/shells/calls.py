"""A gRPC call as HTTP/2 header lists: requests, answers, deadlines, statuses (gRPC over HTTP/2, PROTOCOL-HTTP2.md)."""

import binascii
import re
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from google.rpc import code_pb2

from replog.rpc.http2.protocol.events import FieldList
from replog.rpc.status import DETAILS_KEY, CallStatus

CONTENT_TYPE = (b"content-type", b"application/grpc")
ANSWER: FieldList = ((b":status", b"200"), CONTENT_TYPE)
OK_TRAILERS: FieldList = ((b"grpc-status", b"0"),)

_DETAILS = DETAILS_KEY.encode()
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_EDGE = re.compile(rb"\A | \Z")  # a header's value neither begins nor ends with a space
_MAX_TIMEOUT_MS = 99_999_999
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_OF_HTTP = {404: code_pb2.UNIMPLEMENTED, **dict.fromkeys((429, 502, 503, 504), code_pb2.UNAVAILABLE)}


@lru_cache(1000)
def request_fields(path: str, authority: str, timeout_ms: int | None, scheme: str = "http") -> FieldList:
    """Return the headers of a call with a deadline in `timeout_ms` from now, if any; at most 99,999,999 are sent."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", scheme.encode()),
        (b":path", path.encode()),
        (b":authority", authority.encode()),
        (b"te", b"trailers"),
        CONTENT_TYPE,
        (b"user-agent", b"replog"),
    ]
    if timeout_ms is not None:
        fields.append((b"grpc-timeout", b"%dm" % min(max(timeout_ms, 1), _MAX_TIMEOUT_MS)))
    return tuple(fields)


class Refused(Exception):
    """A request that is not one of gRPC; `fields` are the whole answer."""

    def __init__(self, fields: FieldList) -> None:
        super().__init__(fields)
        self.fields = fields


def parse_request(headers: FieldList) -> tuple[str, float | None]:
    """Return a request's path, and the time that it may take, if there is a deadline. Raises Refused."""
    values = dict(headers)
    if values[b":method"] != b"POST":
        raise Refused(((b":status", b"405"), (b"allow", b"POST")))
    kind = values.get(b"content-type", b"")
    if kind != CONTENT_TYPE[1] and not kind.startswith((CONTENT_TYPE[1] + b"+", CONTENT_TYPE[1] + b";")):
        raise Refused(((b":status", b"415"),))
    if (encoding := values.get(b"grpc-encoding", b"identity")) != b"identity":
        message = f"messages compressed with {encoding[:40]!r} are not read here; send them as they are"
        raise Refused(whole_answer(CallStatus(code_pb2.UNIMPLEMENTED, message, b"")))
    path = values[b":path"].decode("latin-1")
    if (timeout := values.get(b"grpc-timeout")) is None:
        return path, None
    match = _TIMEOUT.fullmatch(timeout)
    if match is None:
        message = f"grpc-timeout {timeout[:40]!r} is no time; send up to 8 digits and one of H M S m u n"
        raise Refused(whole_answer(CallStatus(code_pb2.INTERNAL, message, b""), b"400"))
    return path, int(match[1]) * _SECONDS[match[2]]


def whole_answer(status: CallStatus, http: bytes = b"200") -> FieldList:
    """Return an answer that is only a status."""
    return ((b":status", http), CONTENT_TYPE, *trailers(status))


def trailers(status: CallStatus) -> FieldList:
    message = quote_from_bytes(status.message.encode(), _PLAIN).encode()
    fields = [(b"grpc-status", b"%d" % status.code)]
    if message:
        fields.append((b"grpc-message", _EDGE.sub(b"%20", message)))
    if status.details:
        fields.append((_DETAILS, binascii.b2a_base64(status.details, newline=False).rstrip(b"=")))
    return tuple(fields)


def parse_trailers(fields: FieldList) -> CallStatus | None:
    """Return the end of a call; None if it went well."""
    values = dict(fields)
    said = values.get(b"grpc-status", b"")
    if said == b"0":
        return None
    if not said.isdigit() or len(said) > 9:
        return CallStatus(code_pb2.UNKNOWN, f"the answer ends without a status: grpc-status is {said[:40]!r}", b"")
    message = unquote_to_bytes(values.get(b"grpc-message", b"")).decode(errors="replace")
    encoded = values.get(_DETAILS, b"")
    try:
        details = binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4))
    except binascii.Error:
        details = b""
    return CallStatus(int(said), message, details)


def parse_answer(headers: FieldList) -> CallStatus | None:
    """Return the fault of an answer's headers, if they are not those of gRPC."""
    values = dict(headers)
    status, kind = values[b":status"], values.get(b"content-type", b"")
    if status != b"200":
        code = _OF_HTTP.get(int(status), code_pb2.UNKNOWN)
        return CallStatus(code, f"the answer has HTTP status {status.decode()}", b"")
    if not kind.startswith(CONTENT_TYPE[1]):
        return CallStatus(code_pb2.UNKNOWN, f"the answer is no gRPC: its content-type is {kind[:80]!r}", b"")
    return None
