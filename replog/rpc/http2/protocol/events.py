"""The events that a connection reports to its shell. Header lists are in the order of the wire, names in lower case."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

FieldList = Sequence[tuple[bytes, bytes]]


class Headers(NamedTuple):
    """A call begins (server), or is answered (client). With `end`, nothing follows: a client has no message to send, or
    a server answers with trailers alone."""

    stream_id: int
    headers: list[tuple[bytes, bytes]]
    end: bool


class Message(NamedTuple):
    """One whole gRPC message, without its prefix. Every one has to be returned by `Connection.consumed`.

    Above 4 KiB it is a bytearray, to which nothing else refers."""

    stream_id: int
    payload: bytes | bytearray


class Ended(NamedTuple):
    """The peer sends no more messages: half-closed. Only clients; a server ends by `Trailers` or `Headers.end`."""

    stream_id: int


class Trailers(NamedTuple):
    """The server is done with this call. The stream is closed on both sides: what the client still had to send is
    dropped."""

    stream_id: int
    headers: list[tuple[bytes, bytes]]


class Unreadable(NamedTuple):
    """This peer's messages on this stream cannot be taken any more; the connection goes on.

    `status` is a gRPC status: 8 RESOURCE_EXHAUSTED (message or memory over its bound), 12 UNIMPLEMENTED (compressed),
    13 INTERNAL (not gRPC's framing). A server should answer with trailers of it, a client `reset` and report it. Later
    messages are dropped, and neither `Message` nor `Ended` follows. `Trailers` and `Reset` may."""

    stream_id: int
    status: int
    text: str


class Reset(NamedTuple):
    """The stream is closed at once, by the peer, or by this side if `text` says why (what the peer sent was wrong).

    A REFUSED_STREAM (7) was not handled at all and may be tried again, on another connection after a `GoAway`."""

    stream_id: int
    code: int
    text: str


class Writable(NamedTuple):
    """All that waited on this stream has gone out by `to_send`."""

    stream_id: int


class Opened(NamedTuple):
    """`can_open` was false, and is true again."""


class GoAway(NamedTuple):
    """The peer takes no new streams. Those up to `last_stream` go on; for later ones of ours a `Reset` follows."""

    last_stream: int
    code: int
    text: str


class Drained(NamedTuple):
    """This connection takes no new streams, and none is open any more: it may be closed. A server may get it again,
    after streams that were on the way."""


class Failed(NamedTuple):
    """The connection is over. All streams are gone without further events; write `to_send` (a GOAWAY) and close."""

    code: int
    text: str


Event: TypeAlias = (
    Headers | Message | Ended | Trailers | Unreadable | Reset | Writable | Opened | GoAway | Drained | Failed
)
