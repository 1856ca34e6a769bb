"""Random frames, cuts and headers: nothing raises, the same bytes mean the same, and the memory's sums stay right."""

from hpack import Decoder, Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Failed, Message
from replog.rpc.http2.protocol.frames import HEADER_BYTES, PREFACE, frame
from replog.rpc.http2.protocol.hpack import REQUEST as OF_REQUEST
from replog.rpc.http2.protocol.hpack import TRAILERS, HeaderDecoder, encode_fields
from tests.cases import SOAK
from tests.replog.rpc.http2.accounts import check_accounts
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST, Pair
from tests.replog.rpc.http2.raw import Raw, data, headers, message, number
from tests.replog.rpc.http2.raw import settings as settings_frame

SMALL = Bounds(max_message=100_000, memory=300_000, window=65_535, max_frame=16_384, max_streams=5, untaken=50)
BLOCKS = [encode_fields(fields) for fields in (REQUEST, ANSWER, [*ANSWER, *OK], OK)] + [
    b"",
    b"\x82",
    b"\xbe",
    b"\x40\x01a\x01b",
]
PAYLOADS = (
    st.sampled_from(BLOCKS)
    | st.sampled_from(
        [message(b""), message(b"abc") * 3, message(bytes(90_000))[:16_384], bytes(16_384), number(70_000)]
    )
    | st.binary(max_size=12)
    | st.integers(0, 2**32 - 1).map(number)
)
STREAMS = st.sampled_from([0, 1, 1, 1, 2, 3, 3, 5, 7, 9, 11, 13])
FRAMES = st.builds(frame, st.integers(0, 10), st.sampled_from([0, 1, 4, 4, 5, 5, 8, 0x2D]), STREAMS, PAYLOADS)
LIKELY = st.one_of(
    st.builds(headers, STREAMS, st.booleans(), st.sampled_from(BLOCKS)),
    st.builds(data, STREAMS, PAYLOADS, st.booleans()),
    FRAMES,
)


def conversation(side: str) -> bytes:
    """What one side says in a few calls of all kinds."""
    pair = Pair()
    calls = [pair.client.open([*REQUEST, (b"x-call", b"%d" % count)]) for count in range(5)]
    pair.exchange()
    for connection in (pair.client, pair.server):
        for stream in calls:
            if connection is pair.server:
                connection.send_headers(stream, ANSWER)
            connection.send_message(stream, [b"small"])
            connection.send_message(stream, [bytes(range(256)) * (stream * 350)])
            connection.send_message(stream, [b""])
        connection.ping()
    pair.client.end(calls[0])
    pair.client.end(calls[1])
    pair.exchange()
    pair.client.reset(calls[2], 8)
    pair.server.reset(calls[3], 2)
    for stream in calls:
        pair.server.send_trailers(stream, OK)
    pair.server.go_away(text="enough")
    pair.exchange()
    return bytes(pair.sent_by_client if side == "client" else pair.sent_by_server)


FROM_CLIENT, FROM_SERVER = conversation("client"), conversation("server")


def heard_in_pieces(side: str, sent: bytes, cuts: list[int], as_a_socket: bool = False) -> list:
    """As a socket does it, large messages are put into their places, where that may be."""
    ours = Connection(side, Pair().server.bounds)
    if side == "client":
        ours.allowed = 10
        for _ in range(5):
            ours.open(REQUEST)
    heard, start = [], 0
    reused = bytearray(len(sent))  # as a shell would: nothing may be kept of it
    for cut in sorted({*cuts, len(sent)}):
        while start < cut:
            place = ours.place() if as_a_socket else None
            if place is not None:
                size = min(cut - start, len(place))
                place[:size] = sent[start : start + size]
                heard += ours.landed(size, 0)
            else:
                size = cut - start
                reused[:size] = sent[start:cut]
                data = memoryview(reused)[:size] if size % 2 or as_a_socket else sent[start:cut]
                heard += ours.receive(data, 0)
                reused[:size] = bytes([0xAA]) * size
            start += size
            check_accounts(ours)
    return heard


@settings(max_examples=SOAK or 60)
@given(st.data())
def test_any_cut_of_the_bytes_means_the_same(drawn):
    for side, sent in (("server", FROM_CLIENT), ("client", FROM_SERVER)):
        whole = heard_in_pieces(side, sent, [])
        assert not any(isinstance(event, Failed) for event in whole)
        assert sum(isinstance(event, Message) for event in whole) > 10
        cuts = drawn.draw(st.lists(st.integers(0, len(sent)), max_size=60))
        for as_a_socket in (False, True):
            assert heard_in_pieces(side, sent, cuts, as_a_socket) == whole


def test_frame_by_frame_means_the_same():
    for side, sent, begin in (("server", FROM_CLIENT, len(PREFACE)), ("client", FROM_SERVER, 0)):
        ends = [begin]
        while ends[-1] < len(sent):
            ends.append(ends[-1] + HEADER_BYTES + int.from_bytes(sent[ends[-1] : ends[-1] + 3]))
        assert len(ends) > 30
        assert heard_in_pieces(side, sent, ends, as_a_socket=True) == heard_in_pieces(side, sent, [])


@settings(max_examples=SOAK or 300)
@given(
    st.sampled_from(["client", "server"]),
    st.lists(
        LIKELY | st.tuples(st.sampled_from(["consumed", "reset", "answer", "finish", "write"]), STREAMS), max_size=40
    ),
)
def test_any_frames_and_calls_are_answered_and_the_sums_stay_right(side, steps):
    raw = Raw(side, SMALL, {4: 100, 3: 5})
    ours = raw.ours
    if side == "client":
        for _ in range(3):
            ours.open(REQUEST)
    untaken: list[Message] = []
    for step in steps:
        raw.now_ms += 1
        if isinstance(step, bytes):
            heard = raw.hears(step)
            untaken += [event for event in heard if isinstance(event, Message)]
            assert not any(isinstance(event, Failed) for event in heard[:-1])
        else:
            call, stream = step
            if call == "consumed" and untaken:
                event = untaken.pop(0)
                ours.consumed(event.stream_id, len(event.payload))
            elif call == "reset":
                ours.reset(stream, 8)
            elif call == "answer":
                ours.send_headers(stream, ANSWER)
                ours.send_message(stream, [b"x" * 150])
            elif call == "finish":
                ours.send_trailers(stream, OK)
            else:
                ours.to_send(50)
            ours.events()
        if ours.usable:
            check_accounts(ours)


def test_the_sums_would_notice():
    raw = Raw(bounds=SMALL)
    raw.hears(headers(1), data(1, message(b"abc")), settings_frame({4: 5}))
    check_accounts(raw.ours)
    raw.ours.inflow._credit += 1
    try:
        check_accounts(raw.ours)
    except AssertionError:
        return
    raise AssertionError("one byte too much of credit was not seen")


NAMES = st.sampled_from([b"x", b"grpc-timeout", b"content-type", b"accept", b"cookie", b"a-long-name-" + b"n" * 140])
VALUES = st.sampled_from(
    [b"", b"1", b"gzip, deflate", b"application/grpc", b"v" * 126, b"v" * 127, b"v" * 5000]
) | st.binary(max_size=5).map(lambda value: value.hex().encode())
LISTS = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=3), max_size=12)


@settings(max_examples=150)
@given(LISTS)
def test_hpack_reads_what_we_write(lists):
    decoder = Decoder()
    for fields in (REQUEST, ANSWER, OK, *lists):
        assert list(decoder.decode(encode_fields(fields), raw=True)) == list(fields)


@settings(max_examples=150)
@given(LISTS, st.booleans(), st.integers(0, 4096))
def test_we_read_what_hpack_writes(lists, huffman, table_size):
    encoder, decoder = Encoder(), HeaderDecoder(BOUNDS)
    for turn, fields in enumerate([*lists, *lists]):
        if turn == 3:
            encoder.header_table_size = table_size
        block = encoder.encode(fields, huffman=huffman)
        assert decoder.decode(block, TRAILERS).fields == fields


def test_a_known_block_means_something_else_once_the_table_has_changed():
    encoder, decoder = Encoder(), HeaderDecoder(BOUNDS)
    for value in (b"1", b"2", b"1", b"2"):
        fields = [(b"x-turn", value * 70)]
        decoder.decode(encoder.encode([(b"x-other", value), *fields]), TRAILERS)
        for _ in range(2):
            assert decoder.decode(b"\xbe", TRAILERS).fields == list(encoder.header_table.dynamic_entries)[:1]


def test_the_same_block_is_judged_by_what_it_is_for():
    decoder = HeaderDecoder(BOUNDS)
    block = encode_fields(REQUEST)
    assert decoder.decode(block, OF_REQUEST).code == 0
    assert decoder.decode(block, TRAILERS).code == 1
    assert decoder.decode(block, OF_REQUEST).fields == REQUEST
