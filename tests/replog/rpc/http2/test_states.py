"""What HTTP/2 allows when (RFC 9113 4 to 6): what costs a stream, what the connection, what nothing."""

import pytest

from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Drained, Ended, GoAway, Headers, Message, Reset, Trailers
from replog.rpc.http2.protocol.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    frame,
)
from replog.rpc.http2.protocol.hpack import encode_fields
from replog.rpc.http2.protocol.stream import (
    CLOSED,
    CONNECTION_ERROR,
    HALF_CLOSED_LOCAL,
    HALF_CLOSED_REMOTE,
    HANDLE,
    IDLE,
    IGNORE,
    REACTIONS,
    RESET_RECEIVED,
    RESET_SENT,
    STREAM_ERROR,
    UNOPENED,
)
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST
from tests.replog.rpc.http2.raw import (
    ANSWER_BLOCK,
    REQUEST_BLOCK,
    Raw,
    data,
    headers,
    message,
    number,
    reset,
    settings,
    update,
)

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 1, 3, 5, 6
COMPRESSION_ERROR = 9
TRAILERS_BLOCK = encode_fields(OK)


def in_state(side: str, state: int) -> Raw:
    """A connection whose stream 1 is in this state, in the simplest way."""
    raw = Raw(side)
    ends = state in (HALF_CLOSED_LOCAL if side == "client" else HALF_CLOSED_REMOTE, CLOSED)
    if state != IDLE and side == "client":
        assert raw.ours.can_open
        raw.ours.open(REQUEST, end=ends)
        raw.hears(headers(1, state == CLOSED, ANSWER_BLOCK))
    elif state != IDLE:
        raw.hears(headers(1, ends))
        if state == CLOSED:
            raw.ours.send_trailers(1, [*ANSWER, *OK])
    if state == RESET_SENT:
        raw.ours.reset(1, 8)
    elif state == RESET_RECEIVED:
        raw.hears(reset(1))
    stream = raw.ours.streams.get(1)
    assert state == (raw.ours.state_of(1) if stream is None else stream.state)
    raw.says()
    return raw


FRAMES = {
    DATA: data(1, b"x"),
    HEADERS: headers(1, True, TRAILERS_BLOCK),
    RST_STREAM: reset(1),
    WINDOW_UPDATE: update(1, 1),
}
IMPOSSIBLE = {
    ("server", HALF_CLOSED_LOCAL),  # a server that has ended its answer resets what the client still sends
    ("client", HALF_CLOSED_REMOTE),  # and a client drops what it has to send
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("side", ["server", "client"])
def test_a_frame_of_the_peer_does_in_each_state_what_the_table_says(side, kind):
    for state, reaction in enumerate(REACTIONS[kind]):
        if (side, state) in IMPOSSIBLE or (side, state, kind) == ("server", IDLE, HEADERS):
            continue
        raw = in_state(side, state)
        if reaction in (UNOPENED, CONNECTION_ERROR):
            failed = raw.failure(FRAMES[kind])
            assert failed.code == (PROTOCOL_ERROR if reaction == UNOPENED else STREAM_CLOSED), state
            assert ("which nobody opened" if reaction == UNOPENED else "which has ended") in failed.text
            continue
        heard, resets = raw.hears(FRAMES[kind]), raw.resets()
        assert raw.ours.usable, state
        if reaction == HANDLE:
            assert STREAM_CLOSED not in [code for _, code in resets], state
        else:
            assert [event.code for event in heard] == ([STREAM_CLOSED] if reaction == STREAM_ERROR else []), state
            assert resets == ([] if reaction == IGNORE else [(1, STREAM_CLOSED)]), state


@pytest.mark.parametrize(
    ("frames", "code", "text"),
    [
        (headers(2), PROTOCOL_ERROR, "stream 2"),
        (headers(0), PROTOCOL_ERROR, "stream 0"),
        (data(0), PROTOCOL_ERROR, "stream 0"),
        (headers(5) + headers(3), STREAM_CLOSED, "stream 3"),
        (frame(SETTINGS, 0, 1), PROTOCOL_ERROR, "stream 1"),
        (frame(PING, 0, 1, bytes(8)), PROTOCOL_ERROR, "stream 1"),
        (frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL_ERROR, "stream 1"),
        (frame(RST_STREAM, 0, 0, bytes(4)), PROTOCOL_ERROR, "stream 0"),
        (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL_ERROR, "stream 0"),
        (frame(PING, 0, 0, bytes(7)), FRAME_SIZE_ERROR, "7 bytes"),
        (frame(RST_STREAM, 0, 1, bytes(5)), FRAME_SIZE_ERROR, "5 bytes"),
        (frame(WINDOW_UPDATE, 0, 0, bytes(3)), FRAME_SIZE_ERROR, "3 bytes"),
        (frame(SETTINGS, 0, 0, bytes(7)), FRAME_SIZE_ERROR, "7 bytes"),
        (frame(SETTINGS, ACK, 0, bytes(6)), FRAME_SIZE_ERROR, "payload"),
        (frame(GOAWAY, 0, 0, bytes(7)), FRAME_SIZE_ERROR, "7 bytes"),
        (frame(PUSH_PROMISE, END_HEADERS, 1, number(2)), PROTOCOL_ERROR, "PUSH_PROMISE"),
        (frame(CONTINUATION, END_HEADERS, 1, REQUEST_BLOCK), PROTOCOL_ERROR, "continues nothing"),
        (frame(HEADERS, 0, 1, REQUEST_BLOCK) + headers(3), PROTOCOL_ERROR, "header block of stream 1"),
        (frame(HEADERS, 0, 1, b"") + data(1), PROTOCOL_ERROR, "header block of stream 1"),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, END_HEADERS, 3), PROTOCOL_ERROR, "header block of stream 1"),
        (headers(1, block=b"\xff\xff\xff\xff\xff\xff"), COMPRESSION_ERROR, "too long"),
        (headers(1, block=b"\xbe"), COMPRESSION_ERROR, "index"),
        (headers(1, block=b"\x00\x05ab"), COMPRESSION_ERROR, "short"),
        (headers(1, block=b"\x00\x01a"), COMPRESSION_ERROR, "range"),
        (headers(1, block=b"\x3f\xe2\x1f"), COMPRESSION_ERROR, "table"),
        (headers(1, block=REQUEST_BLOCK + b"\x20"), COMPRESSION_ERROR, "after a field"),
        (headers(1) + frame(DATA, PADDED, 1, b"\x05abc"), PROTOCOL_ERROR, "padding"),
        (headers(1) + frame(DATA, PADDED, 1), PROTOCOL_ERROR, "padding"),
        (headers(1) + reset(1) + frame(DATA, PADDED, 1, b"\x05abc"), PROTOCOL_ERROR, "padding"),
        (frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, b"abc"), FRAME_SIZE_ERROR, "priority"),
        (update(0, 0), PROTOCOL_ERROR, "by 0"),
        (update(0, 2**31 - 1), FLOW_CONTROL_ERROR, "grew"),
        (settings({4: 2**31}), FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE"),
        (settings({5: 16_383}), PROTOCOL_ERROR, "setting 5"),
        (settings({5: 2**24}), PROTOCOL_ERROR, "setting 5"),
        (settings({2: 2}), PROTOCOL_ERROR, "setting 2"),
        (headers(1) + update(1, 2**31 - 1 - 65_535) + settings({4: 65_536}), FLOW_CONTROL_ERROR, "stream 1"),
        (headers(1) + data(1, bytes(256 * 1024 + 1)), FRAME_SIZE_ERROR, "262145 bytes"),
    ],
)
def test_a_server_ends_the_connection(frames, code, text):
    failed = Raw().failure(frames)
    assert failed.code == code
    assert text in failed.text


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (settings({2: 1}), PROTOCOL_ERROR),
        (headers(2, block=ANSWER_BLOCK), PROTOCOL_ERROR),
        (headers(3, block=ANSWER_BLOCK), PROTOCOL_ERROR),
        (data(3), PROTOCOL_ERROR),
        (headers(1, True, ANSWER_BLOCK) + update(1, 1) + headers(1, True, ANSWER_BLOCK), STREAM_CLOSED),
        (frame(PUSH_PROMISE, END_HEADERS, 1, number(2)), PROTOCOL_ERROR),
    ],
)
def test_a_client_ends_the_connection(frames, code):
    raw = Raw("client")
    assert raw.ours.can_open
    raw.ours.open(REQUEST, end=True)
    assert raw.failure(frames).code == code


def test_settings_come_first():
    for begin in (headers(1), frame(SETTINGS, ACK, 0), frame(PING, 0, 0, bytes(8)), data(1)):
        raw = Raw()
        raw.ours = Connection("server", BOUNDS)
        assert raw.failure(PREFACE + begin).code == PROTOCOL_ERROR


@pytest.mark.parametrize(
    "fields",
    [
        [field for field in REQUEST if field[0] != b":path"],
        [field for field in REQUEST if field[0] != b":method"],
        [field for field in REQUEST if field[0] != b":scheme"],
        [*REQUEST, (b":path", b"/late")],
        [(b":path", b"/twice"), *REQUEST],
        [(b":status", b"200"), *REQUEST],
        [(b":unknown", b"1"), *REQUEST],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST, (b"transfer-encoding", b"chunked")],
        [*REQUEST, (b"te", b"gzip")],
        [*REQUEST, (b"content-length", b"5"), (b"content-length", b"6")],
        [*REQUEST, (b"content-length", b"-5")],
        [(b":path", b""), *(field for field in REQUEST if field[0] != b":path")],
    ],
)
def test_a_malformed_request_costs_its_stream(fields):
    raw = Raw()
    assert raw.hears(headers(1, block=encode_fields(fields))) == []
    assert raw.resets() == [(1, PROTOCOL_ERROR)]
    assert raw.hears(data(1, b"late")) == []
    assert raw.hears(headers(3)) == [Headers(3, REQUEST, False)]


@pytest.mark.parametrize(
    "literal",
    [
        b"\x00\x01A\x011",
        b"\x00\x00\x011",
        b"\x00\x02a \x011",
        b"\x00\x01a\x021\n",
        b"\x00\x01a\x02 1",
        b"\x00\x02a:\x01b",
    ],
)
def test_a_malformed_field_costs_its_stream(literal):
    raw = Raw()
    assert raw.hears(headers(1, block=REQUEST_BLOCK + literal)) == []
    assert raw.resets() == [(1, PROTOCOL_ERROR)]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (headers(1) + headers(1, False, TRAILERS_BLOCK), PROTOCOL_ERROR),
        (headers(1) + headers(1, True, REQUEST_BLOCK), PROTOCOL_ERROR),
        (headers(1) + update(1, 0), PROTOCOL_ERROR),
        (headers(1) + update(1, 2**31 - 1), FLOW_CONTROL_ERROR),
        (headers(1) + data(1, bytes(200_000)) + data(1, bytes(62_145)), FLOW_CONTROL_ERROR),
    ],
)
def test_what_costs_a_server_one_stream(frames, code):
    raw = Raw()
    heard = [event for event in raw.hears(frames) if isinstance(event, Reset)]
    assert [(event.stream_id, event.code) for event in heard] == [(1, code)]
    assert heard[0].text
    assert raw.resets() == [(1, code)]
    assert raw.hears(headers(3)) == [Headers(3, REQUEST, False)]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (data(1, b"early"), PROTOCOL_ERROR),
        (headers(1, block=REQUEST_BLOCK), PROTOCOL_ERROR),
        (headers(1, block=encode_fields([(b":status", b"2x0")])), PROTOCOL_ERROR),
        (headers(1, block=encode_fields([(b"x", b"1")])), PROTOCOL_ERROR),
        (headers(1, True, encode_fields([(b":status", b"100")])), PROTOCOL_ERROR),
        (headers(1, block=ANSWER_BLOCK) + headers(1, False, TRAILERS_BLOCK), PROTOCOL_ERROR),
        (headers(1, block=ANSWER_BLOCK) + headers(1, True, ANSWER_BLOCK), PROTOCOL_ERROR),
    ],
)
def test_what_costs_a_client_one_stream(frames, code):
    raw = Raw("client")
    raw.ours.open(REQUEST)
    raw.says()
    assert [(event.stream_id, event.code) for event in raw.hears(frames) if isinstance(event, Reset)] == [(1, code)]
    assert raw.resets() == [(1, code)]
    assert raw.ours.can_open


def test_content_length_is_kept():
    announced = [*REQUEST, (b"content-length", b"7")]
    block = encode_fields(announced)
    raw = Raw()
    assert raw.hears(headers(1, block=block), data(1, message(b"ab"), end=True)) == [
        Headers(1, announced, False),
        Message(1, b"ab"),
        Ended(1),
    ]
    for frames in (data(3, message(b"a"), end=True), data(3, message(b"abc")), headers(3, True, TRAILERS_BLOCK)):
        raw = Raw()
        assert raw.hears(headers(3, block=block), frames)[-1].code == PROTOCOL_ERROR
    assert Raw().hears(headers(1, True, block)) == []


def test_an_informational_answer_is_not_the_answer():
    raw = Raw("client")
    raw.ours.open(REQUEST)
    early = headers(1, block=encode_fields([(b":status", b"103"), (b"link", b"x")]))
    assert raw.hears(early, headers(1, block=ANSWER_BLOCK)) == [Headers(1, ANSWER, False)]


def test_a_reset_without_an_error_after_trailers_changes_nothing():
    raw = Raw("client")
    raw.ours.open(REQUEST)
    heard = raw.hears(headers(1, block=ANSWER_BLOCK), headers(1, True, TRAILERS_BLOCK), reset(1, 0), update(1, 9))
    assert heard == [Headers(1, ANSWER, False), Trailers(1, OK)]
    assert raw.ours.usable


def test_padding_priority_and_unknown_frames_are_passed_over():
    raw = Raw()
    padded = frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, b"\x03" + bytes(5) + REQUEST_BLOCK + bytes(3))
    odd = frame(PRIORITY, 0, 77, bytes(5)), frame(0xBE, 0xFF, 3, b"?" * 70), frame(0x10, 0, 0, bytes(9))
    sent = frame(DATA, PADDED | END_STREAM, 1, b"\x04" + message(b"hello") + bytes(4))
    assert raw.hears(*odd, padded, *odd, sent) == [Headers(1, REQUEST, False), Message(1, b"hello"), Ended(1)]


def test_a_header_block_may_come_in_pieces():
    raw = Raw()
    pieces = [REQUEST_BLOCK[at : at + 10] for at in range(0, len(REQUEST_BLOCK), 10)]
    frames = [frame(HEADERS, END_STREAM, 1, pieces[0])]
    frames += [frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:]]
    assert raw.hears(*frames, frame(CONTINUATION, END_HEADERS, 1)) == [Headers(1, REQUEST, True)]


def test_data_for_streams_after_a_goaway_counts_and_is_dropped():
    raw = Raw()
    raw.hears(headers(1))
    raw.ours.go_away(2, "stopping")
    assert raw.hears(headers(3), data(3, bytes(1000)), data(3, bytes(10), end=True)) == []
    assert raw.hears(data(1, message(b"still"))) == [Message(1, b"still")]


def test_a_last_stream_that_grows_is_harmless():
    raw = Raw("client")
    raw.ours.open(REQUEST)
    goaway = [frame(GOAWAY, 0, 0, number(last) + number(0) + "é".encode()) for last in (2**31 - 1, 1)]
    assert raw.hears(*goaway) == [GoAway(2**31 - 1, 0, "é"), GoAway(1, 0, "é")]
    assert not raw.ours.can_open
    assert raw.hears(headers(1, True, ANSWER_BLOCK)) == [Headers(1, ANSWER, True), Drained()]


def test_numbers_of_streams_run_out():
    raw = Raw("client")
    raw.ours.next_number = 2**31 - 1
    assert raw.ours.can_open
    assert raw.ours.open(REQUEST) == 2**31 - 1
    assert not raw.ours.can_open
    assert not raw.ours.usable
