"""What a peer may do too often: each bound is reached, says so, and is forgiven with time."""

import pytest
from hpack import Encoder

from replog.rpc.http2.protocol.bounds import Bounds, Rate
from replog.rpc.http2.protocol.frames import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    frame,
)
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST
from tests.replog.rpc.http2.raw import REQUEST_BLOCK, Raw, data, headers, message, reset, settings, update

ENHANCE_YOUR_CALM = 11


def streams(count: int, start: int = 1) -> range:
    return range(start, start + 2 * count, 2)


def resets(count: int, start: int = 1) -> bytes:
    return b"".join(headers(stream) + reset(stream) for stream in streams(count, start))


def malformed(count: int, start: int = 1) -> bytes:
    return b"".join(headers(stream, block=b"\x00\x01A\x01a") for stream in streams(count, start))


def made_us_reset(count: int, start: int = 1) -> bytes:
    return b"".join(headers(stream) + update(stream, 0) for stream in streams(count, start))


def refused(count: int, start: int = 1) -> bytes:
    full = b"".join(map(headers, streams(1000)))
    return (full if start == 1 else b"") + b"".join(map(headers, streams(count, start + 2000)))


def same(one: bytes, before: bytes = b""):
    return lambda count, start=1: (before if start == 1 else b"") + one * count


FLOODS = {
    "rapid resets": (resets, BOUNDS.resets, "reset"),
    "malformed requests": (malformed, BOUNDS.resets, "reset"),
    "frames that make us reset": (made_us_reset, BOUNDS.resets, "reset"),
    "streams over the limit": (refused, BOUNDS.refusals, "over the limit"),
    "PING": (same(frame(PING, 0, 0, bytes(8))), BOUNDS.pings, "PING"),
    "SETTINGS": (same(settings({4: 100_000})), Rate(BOUNDS.settings.burst - 1, BOUNDS.settings.per_second), "SETTINGS"),
    "empty DATA": (same(data(1), headers(1)), BOUNDS.empty_data, "empty DATA"),
    "WINDOW_UPDATE": (same(update(1, 1), headers(1)), BOUNDS.window_updates, "WINDOW_UPDATE"),
    "WINDOW_UPDATE of the connection": (same(update(0, 1)), BOUNDS.window_updates, "WINDOW_UPDATE"),
    "PRIORITY": (same(frame(PRIORITY, 0, 9, bytes(5))), BOUNDS.ignored, "without a use"),
    "unknown frames": (same(frame(99, 0, 9, b"?")), BOUNDS.ignored, "without a use"),
    "acknowledgements": (same(frame(SETTINGS, ACK, 0)), BOUNDS.ignored, "without a use"),
    "resets of what has ended": (
        same(frame(RST_STREAM, 0, 1, bytes(4)), malformed(1)),
        BOUNDS.ignored,
        "without a use",
    ),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_connection_and_time_forgives(name):
    flood, rate, text = FLOODS[name]
    raw = Raw()
    start = 1
    for count in (rate.burst, rate.per_second):  # all that is taken at once, and a second later
        raw.hears(flood(count, start))
        assert raw.ours.usable, (name, count)
        raw.says()
        start += 2 * count
        raw.now_ms += 1000
    raw.now_ms -= 1000
    failed = raw.failure(flood(2, start))
    assert failed.code == ENHANCE_YOUR_CALM
    assert text in failed.text
    assert str(rate.per_second) in failed.text


def test_ordinary_calls_are_no_flood():
    raw = Raw()
    for stream in streams(30_000):
        raw.hears(headers(stream), data(stream, message(b"ask"), end=True))
        raw.ours.consumed(stream, 3)
        raw.ours.send_trailers(stream, [*ANSWER, *OK])
        raw.ours.to_send()
    assert raw.ours.usable


@pytest.mark.parametrize("piece", [b"", b"x", bytes(16_000)])
def test_a_header_block_without_an_end_ends_the_connection(piece):
    raw = Raw()
    failed = raw.failure(frame(HEADERS, 0, 1, REQUEST_BLOCK), *[frame(CONTINUATION, 0, 1, piece)] * 33)
    assert failed.code == ENHANCE_YOUR_CALM
    assert "header block" in failed.text


def test_a_frame_of_headers_over_the_bound_is_not_even_collected():
    raw = Raw()
    failed = raw.failure(frame(HEADERS, END_HEADERS, 1, bytes(BOUNDS.header_block + 1))[:9])
    assert failed.code == ENHANCE_YOUR_CALM


def test_headers_over_the_bound_cost_their_stream():
    raw = Raw()
    assert raw.hears(headers(1, block=REQUEST_BLOCK + b"\x00\x01x\x7f\x81\x7d" + b"y" * 16_128)) == []
    assert raw.resets() == [(1, ENHANCE_YOUR_CALM)]
    raw.hears(headers(3))
    assert len(raw.ours.streams) == 1


def test_a_small_block_that_unfolds_into_large_headers_ends_the_connection():
    encoder = Encoder()
    raw = Raw()
    raw.hears(headers(1, block=encoder.encode([*REQUEST, (b"x", b"y" * 3000)])))
    bomb = encoder.encode([*REQUEST, *[(b"x", b"y" * 3000)] * 1000])
    assert len(bomb) < 1100
    failed = raw.failure(headers(3, block=bomb))
    assert failed.code == ENHANCE_YOUR_CALM
    assert "65536 bytes" in failed.text


def test_a_flood_of_messages_that_nobody_takes_costs_their_stream():
    raw = Raw(bounds=Bounds(max_message=1000, untaken=20_000))
    heard = raw.hears(headers(1), data(1, message(b"") * 20_000), data(1, message(b"") * 100))
    assert [type(event).__name__ for event in heard[-2:]] == ["Message", "Unreadable"]
    assert len(heard) == 20_003
    for _ in range(20_001):
        raw.ours.consumed(1, 0)
    assert raw.hears(headers(3), data(3, message(b"x")))[1].payload == b"x"
