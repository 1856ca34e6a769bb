"""Messages and memory: framing, credit, one bound for a connection, and who goes on when it is full."""

import pytest

from replog.rpc.http2.protocol.bounds import Bounds
from replog.rpc.http2.protocol.events import Ended, Headers, Message, Reset, Trailers, Unreadable
from replog.rpc.http2.protocol.frames import DATA, PADDED, WINDOW_UPDATE, frame
from replog.rpc.http2.protocol.hpack import encode_fields
from tests.replog.rpc.http2.accounts import check_accounts
from tests.replog.rpc.http2.pairs import ANSWER, OK, REQUEST, Pair, unreadable
from tests.replog.rpc.http2.raw import Raw, data, headers, message, number, settings, update

RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13
KIB, MIB = 1 << 10, 1 << 20
TIGHT = Bounds(max_message=1 * MIB, memory=2 * MIB, window=64 * KIB, max_frame=16 * KIB)


def frames(stream: int, payload: bytes) -> bytes:
    return b"".join(data(stream, payload[at : at + 16_384]) for at in range(0, len(payload), 16_384))


def credit(raw: Raw) -> dict[int, int]:
    """Of each stream, and 0 for the connection: by how much its window has grown."""
    grown: dict[int, int] = {}
    for kind, _, stream, payload in raw.says():
        if kind == WINDOW_UPDATE:
            grown[stream] = grown.get(stream, 0) + int.from_bytes(payload, "big")
    return grown


# -- framing of gRPC


def test_several_messages_in_one_frame_and_one_in_many():
    raw = Raw()
    raw.hears(headers(1))
    assert raw.hears(data(1, message(b"a") + message(b"") + message(b"ccc")[:3])) == [Message(1, b"a"), Message(1, b"")]
    for byte in message(b"ccc")[3:-1]:
        assert raw.hears(data(1, bytes([byte]))) == []
    assert raw.hears(data(1, b"c" + message(b"d"), end=True)) == [Message(1, b"ccc"), Message(1, b"d"), Ended(1)]


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (message(b"packed", flag=1), INTERNAL),
        (message(b"odd", flag=2), INTERNAL),
        (message(b"", flag=255), INTERNAL),
        (b"\0" + number(1 * MIB + 1), RESOURCE_EXHAUSTED),
        (b"\0" + number(2**32 - 1) + b"begins", RESOURCE_EXHAUSTED),
    ],
)
def test_a_message_that_cannot_be_read_costs_its_stream(payload, status):
    raw = Raw(bounds=TIGHT)
    raw.hears(headers(1), headers(3))
    whole = message(b"before") + payload + message(b"after")
    heard = raw.hears(data(1, whole[:8]), data(1, whole[8:]), data(1, message(b"later"), end=True))
    assert heard[0] == Message(1, b"before")
    assert unreadable(heard[1:]) == [(1, status)]
    assert len(heard) == 2
    raw.ours.send_trailers(1, [*ANSWER, (b"grpc-status", b"%d" % status)])
    assert raw.hears(data(3, message(b"fine"))) == [Message(3, b"fine")]


def test_a_message_over_the_bound_is_refused_even_if_it_came_in_one_frame():
    raw = Raw(bounds=Bounds(max_message=1000))
    raw.hears(headers(1))
    assert raw.hears(data(1, message(bytes(1000)))) == [Message(1, bytes(1000))]
    assert unreadable(raw.hears(data(1, message(bytes(1001))))) == [(1, RESOURCE_EXHAUSTED)]


def test_a_compressed_message_that_was_announced_is_not_implemented():
    raw = Raw()
    raw.hears(headers(1, block=encode_fields([*REQUEST, (b"grpc-encoding", b"gzip")])))
    assert raw.hears(data(1, message(b"plain"))) == [Message(1, b"plain")]
    assert unreadable(raw.hears(data(1, message(b"packed", flag=1)))) == [(1, UNIMPLEMENTED)]


@pytest.mark.parametrize("cut", [1, 4, 5, 8])
def test_an_end_inside_of_a_message(cut):
    raw = Raw()
    heard = raw.hears(headers(1), data(1, message(b"cut off")[:cut], end=True))
    assert heard[:1] == [Headers(1, REQUEST, False)]
    assert unreadable(heard[1:]) == [(1, INTERNAL)]
    client = Raw("client")
    client.ours.open(REQUEST)
    heard = client.hears(
        headers(1, block=encode_fields(ANSWER)), data(1, message(b"cut off")[:cut]), headers(1, True, encode_fields(OK))
    )
    assert unreadable(heard[1:2]) == [(1, INTERNAL)]
    assert heard[2:] == [Trailers(1, OK)]


# -- credit


def test_credit_goes_back_when_messages_are_taken_in_halves_of_the_window():
    raw = Raw(bounds=TIGHT)
    raw.hears(headers(1), frames(1, message(bytes(40_000))))
    assert credit(raw) == {}
    raw.ours.consumed(1, 40_000)
    assert credit(raw) == {1: 40_005}
    raw.hears(frames(1, message(bytes(20_000))))
    raw.ours.consumed(1, 20_000)
    assert credit(raw) == {}


def test_the_connection_gets_its_credit_in_large_pieces():
    raw = Raw(bounds=TIGHT)
    for stream in range(1, 200, 2):
        raw.hears(headers(stream), data(stream, message(bytes(10_000)), end=True))
        raw.ours.consumed(stream, 10_000)
        raw.ours.send_trailers(stream, [*ANSWER, *OK])
    raw.ours.consumed(1, 10_000)  # once too often
    assert raw.hears(headers(201)) == [Headers(201, REQUEST, False)]
    assert credit(raw) == {}
    for stream in range(203, 230, 2):
        raw.hears(headers(stream), data(stream, message(bytes(10_000)), end=True))
        raw.ours.consumed(stream, 10_000)
    assert set(credit(raw)) == {0}


def test_padding_gets_its_credit_back_at_once():
    raw = Raw(bounds=TIGHT)
    raw.hears(headers(1))
    sent = message(bytes(5_000))
    for byte in sent[:-1]:
        assert raw.hears(frame(DATA, PADDED, 1, bytes([255, byte]) + bytes(255))) == []
    check_accounts(raw.ours)
    assert raw.hears(data(1, sent[-1:])) == [Message(1, bytes(5_000))]


def test_a_message_larger_than_the_window_gets_its_credit_at_once():
    raw = Raw(bounds=TIGHT)
    raw.hears(headers(1), data(1, message(bytes(500_000))[:1000]))
    assert credit(raw) == {1: 500_000}  # so that the window is open behind it, too
    assert raw.hears(frames(1, message(bytes(500_000))[1000:])) == [Message(1, bytes(500_000))]


def test_what_a_reset_stream_held_and_what_still_comes_gives_its_credit_back():
    raw = Raw(bounds=TIGHT)
    given = 0
    for stream in range(1, 400, 2):
        raw.hears(headers(stream), frames(stream, message(bytes(30_000)) + message(bytes(30_000))[:20_000]))
        raw.ours.reset(stream, 8)
        raw.hears(data(stream, bytes(10_005)))
        given += credit(raw).get(0, 0)
    assert given > 200 * 60_000 - 2 * MIB
    raw.ours.consumed(1, 30_000)
    assert raw.hears(headers(401), frames(401, message(b"x" * 30_000)))[1:] == [Message(401, b"x" * 30_000)]


def test_a_peer_that_ignores_the_connections_window_loses_the_connection():
    raw = Raw(bounds=TIGHT)
    for stream in range(1, 65, 2):
        raw.hears(headers(stream), frames(stream, message(bytes(65_531))))
    failed = raw.failure(headers(65), data(65, b"x"))
    assert failed.code == 3
    assert "window" in failed.text


def test_a_stream_gives_way_to_others_whatever_frames_the_peer_takes():
    raw = Raw("client", told={4: 2**30, 5: 2**24 - 1})
    raw.hears(update(0, 2**30))
    for _ in range(2):
        raw.ours.send_message(raw.ours.open(REQUEST), [bytes(MIB)])
    sent = [(said[2], len(said[3])) for said in raw.says() if said[0] == DATA]
    assert sent[:3] == [(1, 256 * KIB), (3, 256 * KIB), (1, 256 * KIB)]


def test_our_windows_may_become_negative():
    raw = Raw("client", told={4: 1000})
    stream = raw.ours.open(REQUEST)
    raw.ours.send_message(stream, [bytes(5000)])
    sent = sum(len(said[3]) for said in raw.says() if said[0] == 0)
    assert sent == 1000
    raw.hears(settings({4: 100}), update(stream, 900))
    assert [said for said in raw.says() if said[0] == 0] == []
    raw.hears(update(stream, 1))
    assert [len(said[3]) for said in raw.says() if said[0] == 0] == [1]
    raw.hears(settings({4: 2**31 - 1}))
    assert sum(len(said[3]) for said in raw.says() if said[0] == 0) == 4004


# -- one memory


def test_large_messages_wait_for_their_place_and_the_one_that_lacks_least_is_next():
    raw = Raw(bounds=TIGHT)
    begun = {1: 900_000, 3: 900_000, 5: 800_000, 7: 300_000}
    for stream, size in begun.items():
        raw.hears(headers(stream), data(stream, message(bytes(size))[:10_000]))
    assert set(credit(raw)) == {1, 3}  # the memory of 2 MiB has room for two of them
    assert raw.hears(frames(1, message(bytes(900_000))[10_000:])) == [Message(1, bytes(900_000))]
    assert credit(raw) == {}
    raw.ours.consumed(1, 900_000)
    assert {7} == set(credit(raw)) - {0, 1}
    raw.hears(frames(7, message(bytes(300_000))[10_000:]))
    raw.ours.reset(7, 8)
    assert 5 in credit(raw)


def test_incomplete_messages_that_fill_the_memory_give_way_to_each_other():
    pair = Pair(server=TIGHT)
    streams = [pair.call() for _ in range(50)]  # whose windows alone are more than the memory
    for stream in streams:
        pair.client.send_message(stream, [bytes(MIB - 5 - stream)])
    heard, refused = [], []
    while events := pair.server_hears():
        heard += [event.stream_id for event in events if isinstance(event, Message)]
        for stream, status in unreadable(events):
            refused.append(stream)
            assert status == RESOURCE_EXHAUSTED
            pair.server.send_trailers(stream, [(b"grpc-status", b"8")])
    assert sorted(heard + refused) == streams
    assert streams[0] in heard  # lacked most, but had been promised its place
    assert len(heard) > 10
    assert len(refused) > 10
    pair.client_hears()
    stream = pair.call()
    pair.client.send_message(stream, [bytes(MIB)])
    assert pair.server_hears() == [Message(stream, bytes(MIB))]


def test_small_incomplete_messages_that_fill_the_memory_cannot_stop_it():
    raw = Raw(bounds=TIGHT)
    heard = []
    for stream in range(1, 65, 2):
        heard += raw.hears(headers(stream), frames(stream, message(bytes(65_531))[:-1]))
    for stream in range(65, 81, 2):
        assert unreadable(heard) == []
        heard += raw.hears(headers(stream), data(stream, message(b"")[:4]))
    assert unreadable(heard) == [(1, RESOURCE_EXHAUSTED)]
    assert raw.hears(data(5, b"\0")) == [Message(5, bytes(65_531))]


def test_a_frame_that_fills_the_memory_may_complete_a_message():
    raw = Raw(bounds=TIGHT)
    for stream in range(1, 65, 2):
        assert unreadable(raw.hears(headers(stream), frames(stream, message(bytes(65_531))[:-1]))) == []
    last = data(65, message(b"x" * 27))
    assert raw.hears(headers(65), last[:-3]) == [Headers(65, REQUEST, False)]
    assert raw.hears(last[-3:]) == [Message(65, b"x" * 27)]


def test_whoever_is_full_of_untaken_messages_waits_for_the_reader():
    pair = Pair(server=TIGHT)
    streams = [pair.call() for _ in range(40)]
    for stream in streams:
        for _ in range(4):
            pair.client.send_message(stream, [bytes(60_000)])
    pair.exchange(take=False)
    assert unreadable(pair.heard_by_server) == []
    taken = 0
    while messages := [event for event in pair.heard_by_server if isinstance(event, Message)]:
        pair.heard_by_server.clear()
        held = sum(len(event.payload) for event in messages)
        assert held <= TIGHT.memory
        for event in messages:
            pair.server.consumed(event.stream_id, len(event.payload))
            taken += 1
        pair.exchange(take=False)
    assert taken == 160


def test_a_crowd_of_large_messages_all_arrive():
    pair = Pair(server=TIGHT)
    streams = [pair.call() for _ in range(15)]  # their windows, and one whole message, fit into the memory
    for stream in streams:
        pair.client.send_message(stream, [bytes(MIB - 5 - stream)], end=True)
    heard = pair.server_hears()
    assert not [event for event in heard if isinstance(event, Reset | Unreadable)]
    assert sorted(event.stream_id for event in heard if isinstance(event, Message)) == streams
