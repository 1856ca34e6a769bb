"""The `h2` package as the other side, in memory: what it sends and takes is HTTP/2 by somebody else's reading."""

import struct

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import (
    Drained,
    Ended,
    GoAway,
    Headers,
    Message,
    Opened,
    Pong,
    Reset,
    Trailers,
    Writable,
)
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST


def prefixed(payload: bytes) -> bytes:
    return struct.pack(">BL", 0, len(payload)) + payload


class Beside:
    """A connection of ours, and one of `h2`, which takes DATA as it comes."""

    def __init__(self, side: str) -> None:
        self.ours = Connection(side, BOUNDS)
        self.theirs = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=side == "server", header_encoding=None)
        )
        self.theirs.initiate_connection()
        self.heard: list = []  # by ours
        self.heard_by_h2: list = []
        self.data = b""  # that h2 got
        assert self.ours.can_open is False
        self.exchange()
        self.heard.clear()
        self.heard_by_h2.clear()

    def exchange(self) -> None:
        while True:
            data = b"".join(self.ours.to_send())
            for event in self.theirs.receive_data(data) if data else ():
                self.heard_by_h2.append(event)
                if isinstance(event, h2.events.DataReceived):
                    self.data += event.data
                    self.theirs.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            back = self.theirs.data_to_send()
            heard = self.ours.receive(back, 0)
            self.heard += heard
            for event in heard:
                if isinstance(event, Message):
                    self.ours.consumed(event.stream_id, len(event.payload))
            if not data and not back:
                return

    def hears(self) -> list:
        self.exchange()
        heard, self.heard = self.heard, []
        return heard

    def h2_hears(self) -> list[type]:
        self.exchange()
        heard, self.heard_by_h2 = self.heard_by_h2, []
        return [type(event) for event in heard]

    def send_as_windows_allow(self, stream: int, data: bytes) -> None:
        while data:
            size = min(
                len(data), self.theirs.local_flow_control_window(stream), self.theirs.max_outbound_frame_size, 5000
            )
            assert size > 0, "no credit came"
            self.theirs.send_data(stream, data[:size], pad_length=size % 3 or None)
            data = data[size:]
            self.exchange()


@pytest.fixture
def server() -> Beside:
    return Beside("server")


@pytest.fixture
def client() -> Beside:
    return Beside("client")


def test_h2_calls(server):
    server.theirs.send_headers(1, REQUEST)
    server.theirs.send_data(1, prefixed(b"asking"), end_stream=True)
    assert server.hears() == [Headers(1, REQUEST, False), Message(1, b"asking"), Ended(1)]
    server.ours.send_headers(1, ANSWER)
    server.ours.send_message(1, [b"answer"])
    server.ours.send_trailers(1, OK)
    assert server.h2_hears() == [
        h2.events.ResponseReceived,
        h2.events.DataReceived,
        h2.events.TrailersReceived,
        h2.events.StreamEnded,
    ]
    assert server.data == prefixed(b"answer")


def test_h2_calls_many_times_with_a_dynamic_table(server):
    for number in range(1, 200, 2):
        fields = [*REQUEST, (b"x-turn", b"%d" % (number // 40)), (b"x-long", bytes([97 + number % 7]) * 900)]
        server.theirs.send_headers(number, fields, end_stream=True)
        assert server.hears() == [Headers(number, fields, True)]
        server.ours.send_trailers(number, [*ANSWER, *OK])
        assert server.h2_hears() == [h2.events.ResponseReceived, h2.events.StreamEnded]


def test_h2_sends_messages_larger_than_windows_in_small_padded_frames(server):
    server.theirs.send_headers(1, REQUEST)
    messages = [bytes([count]) * (count * 200_000) for count in range(6)]
    server.send_as_windows_allow(1, b"".join(map(prefixed, messages)))
    assert server.hears() == [Headers(1, REQUEST, False), *(Message(1, message) for message in messages)]


def test_h2_takes_messages_larger_than_windows(client):
    stream = client.ours.open(REQUEST)
    payload = bytes(range(256)) * 8192
    client.ours.send_message(stream, [payload, payload], end=True)
    assert client.hears() == [Writable(stream)]
    assert client.data == prefixed(payload + payload)
    client.theirs.send_headers(stream, ANSWER)
    client.theirs.send_data(stream, prefixed(b"thanks"))
    client.theirs.send_headers(stream, OK, end_stream=True)
    assert client.hears() == [Headers(stream, ANSWER, False), Message(stream, b"thanks"), Trailers(stream, OK)]


def test_h2_resets_a_stream_answers_a_ping_and_goes_away(client):
    first, second = client.ours.open(REQUEST), client.ours.open(REQUEST)
    client.exchange()
    client.theirs.reset_stream(first, 2)
    client.theirs.ping(b"12345678")
    client.ours.ping()
    assert client.hears() == [Reset(first, 2, ""), Pong()]
    assert h2.events.PingAckReceived in client.h2_hears()
    client.theirs.close_connection(0, b"bye", last_stream_id=first)
    assert client.ours.receive(client.theirs.data_to_send(), 0) == [
        GoAway(first, 0, "bye"),
        Reset(second, 7, ""),
        Drained(),
    ]


def test_h2_changes_its_window_under_an_open_stream(client):
    stream = client.ours.open(REQUEST)
    for size in (10, 70_000, 0, 1, 30_000):
        client.theirs.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
        client.ours.send_message(stream, [bytes(40_000)])
        client.exchange()
    assert client.data == prefixed(bytes(40_000)) * 5
    assert client.ours.waiting(stream) == 0


def test_h2_lets_a_client_wait_for_a_place():
    client = Beside("client")
    client.theirs.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    client.exchange()
    stream = client.ours.open(REQUEST, end=True)
    assert not client.ours.can_open
    client.exchange()
    client.theirs.send_headers(stream, [*ANSWER, *OK], end_stream=True)
    assert client.hears() == [Headers(stream, [*ANSWER, *OK], True), Opened()]
