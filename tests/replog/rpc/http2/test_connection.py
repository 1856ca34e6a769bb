"""A client and a server of ours, in memory: calls, messages, and how they end."""

import pytest

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Drained, Ended, Failed, GoAway, Headers, Message, Reset, Trailers
from replog.rpc.http2.protocol.frames import ACK, PING, frame
from replog.rpc.http2.protocol.receiver import PING_DATA
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST, Pair


def test_a_server_that_ends_first_drops_what_the_client_still_sends():
    pair = Pair()
    stream = pair.call()
    pair.server.send_trailers(stream, OK)
    pair.client.send_message(stream, [bytes(100_000)])
    assert pair.client_hears() == [Trailers(stream, OK)]
    assert pair.server_hears() == []
    assert pair.client.streams == pair.server.streams == {}
    pair.call()


def test_one_stream_too_many_costs_that_stream():
    pair = Pair(server=Bounds(max_message=1 << 20, max_streams=1))
    first = pair.call()
    second = pair.client.open(REQUEST)
    pair.client.send_message(second, [b"lost"])
    assert pair.client_hears() == [Reset(second, 7, "")]
    pair.client.send_message(first, [b"kept"])
    assert pair.server_hears() == [Message(first, b"kept")]


def test_a_ping_is_answered():
    pair = Pair()
    pair.client.ping()
    assert pair.client_hears() == pair.server_hears() == []
    assert pair.sent_by_server.endswith(frame(PING, ACK, 0, PING_DATA))


def test_a_server_that_drains_serves_what_is_on_its_way():
    pair = Pair()
    running = pair.call()
    on_its_way = pair.client.open(REQUEST)
    pair.server.go_away(text="maintenance")
    assert pair.client_hears() == [GoAway(2**31 - 1, 0, "maintenance"), GoAway(on_its_way, 0, "")]
    assert not pair.client.usable
    assert not pair.client.can_open
    pair.client.send_message(running, [b"still"], end=True)
    assert pair.server_hears() == [Headers(on_its_way, REQUEST, False), Message(running, b"still"), Ended(running)]
    pair.server.send_trailers(running, OK)
    assert pair.client_hears() == [Trailers(running, OK)]
    pair.server.send_trailers(on_its_way, [*ANSWER, *OK])
    assert pair.client_hears() == [Headers(on_its_way, [*ANSWER, *OK], True), Drained()]
    assert pair.server_hears() == [Drained()]
    assert pair.server.streams == pair.client.streams == {}


def test_a_stream_after_the_last_goaway_was_not_handled():
    pair = Pair()
    running = pair.call()
    pair.server.go_away(11, "enough")
    late = pair.client.open(REQUEST)
    pair.client.send_message(late, [bytes(1000)])
    assert pair.client_hears() == [GoAway(running, 11, "enough"), Reset(late, 7, "")]
    assert pair.server_hears() == []
    pair.client.send_message(running, [b"still"])
    assert pair.server_hears() == [Message(running, b"still")]


def test_who_speaks_no_http2_is_told_so():
    server = Connection("server", BOUNDS)
    server.to_send()
    [failed] = server.receive(b"GET / HTTP/1.1\r\n\r\n", 0)
    assert isinstance(failed, Failed)
    assert "HTTP/2" in failed.text
    assert b"HTTP/2" in b"".join(server.to_send())
    assert server.receive(b"more", 0) == []
    assert not server.usable


def test_a_field_that_may_not_be_sent_is_refused_here():
    pair = Pair()
    for field in ((b"Upper", b"case"), (b"x", b"a\r\nb"), (b"", b"")):
        with pytest.raises(ValueError, match="header"):
            pair.client.open([*REQUEST, field])
    pair.call()
