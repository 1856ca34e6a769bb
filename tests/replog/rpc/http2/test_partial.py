"""Large messages are read into their own memory, which a peer cannot have for nothing."""

import os

import pytest

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Ended, Event, Message
from replog.rpc.http2.protocol.hpack import encode_fields
from tests.replog.rpc.http2.accounts import check_accounts
from tests.replog.rpc.http2.pairs import REQUEST
from tests.replog.rpc.http2.raw import Raw, data, headers, message, update

KIB, MIB = 1 << 10, 1 << 20
FRAME = 256 * KIB
LARGE = os.urandom(MIB - 5)  # four frames with its prefix


def frames(stream: int, payload: bytes, end: bool = False) -> bytes:
    return b"".join(
        data(stream, payload[at : at + FRAME], end and at + FRAME >= len(payload))
        for at in range(0, len(payload), FRAME)
    )


def land(ours: Connection, sent: bytes) -> tuple[list[Event], int]:
    """Put what is sent into the place that there is, as one read would; the events, and how much there was room for."""
    place = ours.place()
    assert place is not None
    size = min(len(sent), len(place))
    place[:size] = sent[:size]
    return ours.landed(size, 0), size


def begun(raw: Raw, size: int, payload: bytes = LARGE) -> bytes:
    """So much of a message in frames has come, and streams 1 and 3 are open. Returns what is to come of it."""
    sent = frames(1, message(payload))
    assert len(raw.hears(headers(1), headers(3), sent[:size])) == 2
    return sent[size:]


def test_what_comes_of_a_large_message_goes_to_its_place_over_the_ends_of_frames():
    raw = Raw()
    rest, heard, reads = begun(raw, 200 * KIB), list[Event](), 0
    first = raw.ours.place()
    while not heard:
        if raw.ours.place() is None:
            heard = raw.hears(rest)
            break
        heard, size = land(raw.ours, rest)
        rest = rest[size:]
        reads += 1
        check_accounts(raw.ours)
    assert heard == [Message(1, LARGE)]
    assert reads == 4, "a frame each"
    assert heard[0].payload is first.obj


def test_the_end_of_a_stream_may_come_in_place():
    raw = Raw()
    sent = frames(1, message(LARGE), end=True)
    raw.hears(headers(1), sent[: -100 * KIB])
    assert land(raw.ours, sent[-100 * KIB :])[0] == [Message(1, LARGE), Ended(1)]


@pytest.mark.parametrize("cut", [0, 5, 9, 100, 9 + FRAME])
def test_the_next_frame_comes_into_place_behind_its_header_however_little_comes(cut):
    raw = Raw()
    rest = begun(raw, 9 + FRAME)
    assert land(raw.ours, rest[:cut]) == ([], cut)
    check_accounts(raw.ours)
    assert raw.hears(rest[cut:]) == [Message(1, LARGE)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(data(3, message(b"small")), id="a whole message"),
        pytest.param(data(3, message(bytes(150 * KIB))), id="a part of a message"),
        pytest.param(data(1, b"") + data(3, message(b"x")), id="a frame without data"),
        pytest.param(update(3, 1) + data(3, message(b"x")), id="another kind of frame"),
    ],
)
def test_another_frame_may_come_instead(other):
    raw = Raw()
    rest = begun(raw, 9 + FRAME)
    heard, size = land(raw.ours, other[: 100 * KIB])
    check_accounts(raw.ours)
    heard += raw.hears(other[size:])
    assert [event.stream_id for event in heard] == [3]
    assert raw.hears(rest) == [Message(1, LARGE)]


def test_what_comes_instead_may_be_wrong():
    for wrong in (data(5, b"xyz"), b"\xff" * 100):
        raw = Raw()
        begun(raw, 9 + FRAME)
        heard, _ = land(raw.ours, wrong)
        assert [type(event).__name__ for event in heard] == ["Failed"]
        assert raw.ours.place() is None


@pytest.mark.parametrize(
    ("payload", "came"),
    [
        pytest.param(LARGE[: 100 * KIB], 90 * KIB, id="a small message"),
        pytest.param(LARGE, 100 * KIB, id="less than an eighth of it is here"),
        pytest.param(LARGE[: 250 * KIB], 200 * KIB, id="little is missing"),
    ],
)
def test_some_messages_are_not_read_in_place(payload, came):
    raw = Raw()
    rest = begun(raw, came, payload)
    assert raw.ours.place() is None
    assert raw.hears(rest) == [Message(1, payload)]


def test_there_is_no_place_in_a_message_that_nobody_wants_or_whose_stream_has_a_content_length():
    for ends in (lambda raw: raw.ours.reset(1, 8), lambda raw: raw.ours.send_trailers(1, [(b"grpc-status", b"8")])):
        raw = Raw()
        rest = begun(raw, 200 * KIB)
        assert raw.ours.place() is not None
        ends(raw)
        assert raw.ours.place() is None
        assert raw.hears(rest) == []
    raw = Raw()
    raw.hears(headers(1, block=encode_fields([*REQUEST, (b"content-length", b"%d" % MIB)])))
    assert raw.hears(frames(1, message(LARGE))[: 200 * KIB]) == []
    assert raw.ours.place() is None


def test_memory_for_what_has_not_come_counts_as_held_and_is_at_most_eight_times_what_has():
    raw = Raw(bounds=Bounds(max_message=16 * MIB))
    sent, came = frames(1, message(bytes(16 * MIB))), 0
    raw.hears(headers(1))
    while came < 6 * MIB:
        raw.hears(sent[came : came + 64 * KIB])
        came += 64 * KIB
        assert came / 2 < raw.ours.held <= 8 * came
        assert [size for _, size, _ in raw.ours.holdings()] == [raw.ours.held]
        check_accounts(raw.ours)
    assert 16 * MIB <= raw.ours.held < 17 * MIB
    raw.ours.reset(1, 8)
    assert raw.ours.held == 0


def test_a_connection_has_no_more_memory_for_such_messages_than_for_all():
    raw = Raw(bounds=Bounds(max_message=2 * MIB, memory=3 * MIB))
    most = 0
    for stream in range(1, 30, 2):
        raw.hears(headers(stream), data(stream, message(bytes(MIB))[: 140 * KIB]))
        most = max(most, raw.ours.held)
        check_accounts(raw.ours)
    assert 2 * MIB < most <= 2 * 3 * MIB
