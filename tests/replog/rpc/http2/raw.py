"""Frames by hand: a peer that sends whatever a test wants."""

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Event, Failed
from replog.rpc.http2.protocol.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    pack_settings,
)
from replog.rpc.http2.protocol.hpack import encode_fields
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, REQUEST

REQUEST_BLOCK, ANSWER_BLOCK = encode_fields(REQUEST), encode_fields(ANSWER)


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def headers(stream: int, end: bool = False, block: bytes = REQUEST_BLOCK) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)


def data(stream: int, payload: bytes = b"", end: bool = False) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream, payload)


def message(payload: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + number(len(payload)) + payload


def reset(stream: int, code: int = 8) -> bytes:
    return frame(RST_STREAM, 0, stream, number(code))


def update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, number(increment))


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, pack_settings(values))


class Raw:
    """A connection of ours whose peer is the test. The preface and SETTINGS are done."""

    def __init__(self, side: str = "server", bounds: Bounds = BOUNDS, told: dict[int, int] | None = None) -> None:
        self.ours = Connection(side, bounds)
        self.ours.to_send()
        self.now_ms = 0
        assert self.hears((PREFACE if side == "server" else b"") + settings(told or {})) == []
        self.says()

    def hears(self, *frames: bytes) -> list[Event]:
        return self.ours.receive(b"".join(frames), self.now_ms)

    def says(self) -> list[tuple[int, int, int, bytes]]:
        """Type, flags, stream and payload of the frames that are to be sent."""
        sent, found = b"".join(self.ours.to_send()), []
        while sent:
            size = int.from_bytes(sent[:3], "big")
            found.append((sent[3], sent[4], int.from_bytes(sent[5:9], "big"), sent[9 : 9 + size]))
            sent = sent[9 + size :]
        return found

    def resets(self) -> list[tuple[int, int]]:
        """Streams, and codes, of the RST_STREAM frames to be sent."""
        return [(sent[2], int.from_bytes(sent[3], "big")) for sent in self.says() if sent[0] == RST_STREAM]

    def failure(self, *frames: bytes) -> Failed:
        """How the connection ends by these frames. It says so to its peer, and nothing happens after that."""
        heard = self.hears(*frames)
        assert heard, "the connection goes on"
        failed = heard[-1]
        assert isinstance(failed, Failed), heard
        kind, _, stream, payload = self.says()[-1]
        assert (kind, stream) == (GOAWAY, 0)
        assert payload[4:] == number(failed.code) + failed.text.encode()[:1000]
        assert self.hears(headers(2**31 - 1)) == []
        assert not self.ours.streams
        assert not self.ours.usable
        return failed
