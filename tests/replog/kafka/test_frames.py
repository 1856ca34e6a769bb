"""A connection of Kafka's protocol without a socket: bytes in any pieces, answers in order, and bounds."""

import random
import struct
import tracemalloc

import pytest

from replog.kafka import frames as module
from replog.kafka.errors import BadFrame
from replog.kafka.frames import (
    CLIENT_ID,
    GROWS,
    LARGE,
    MOST_ASKED,
    MOST_TAGS,
    MOST_UNSENT,
    SMALL,
    ClientFrames,
    ServerFrames,
    answer_body,
)
from replog.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceRequestTopicData,
)
from replog.kafka.primitives import MAX_MEMORY
from replog.kafka.versions import APIS

API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID, PRODUCE = 18, 19, 22, 0
MIB = 1 << 20
MOST = 4 * MIB


def most(_key: int) -> int:
    return MOST


def serves(key: int, version: int) -> bool:
    return key in APIS and APIS[key].oldest <= version <= APIS[key].newest


def produce(records: bytes) -> ProduceRequest:
    partition = ProduceRequestPartitionData(records=records)
    return ProduceRequest(acks=-1, topic_data=[ProduceRequestTopicData("t", partition_data=[partition])])


def header(key: int, version: int, correlation_id: int, client_id: bytes = b"c", tags: bytes = b"") -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id + tags


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def joined(pieces: object) -> bytes:
    return b"".join(pieces)  # type: ignore[arg-type]


def fed(frames: ServerFrames, data: bytes, cuts: list[int]) -> list[tuple[object, ...]]:
    """The requests of these bytes, in pieces that end at `cuts`, where a place is offered, there."""
    requests, begin = [], 0
    for end in (*cuts, len(data)):
        part = data[begin:end]
        while part:
            place = frames.place()
            if place is None:
                frames.receive(memoryview(bytearray(part)))
                part = b""
            else:
                size = min(len(place), len(part))
                place[:size] = part[:size]
                frames.landed(size)
                part = part[size:]
            while (request := frames.next()) is not None:
                message = request.message
                if request.key == PRODUCE:
                    message = bytes(message.topic_data[0].partition_data[0].records)
                requests.append((*request[:5], message))
                frames.answer(request.number, None)
                frames.to_send(MIB)
        begin = end
    return requests


def test_any_split_of_the_bytes_gives_the_same_requests():
    rng = random.Random(1)
    client = ClientFrames("c", MOST)
    records = rng.randbytes(3 * LARGE)
    asked = [
        (API_VERSIONS, 3, ApiVersionsRequest("a", "1")),
        (API_VERSIONS, 0, ApiVersionsRequest()),
        (PRODUCE, 9, produce(records)),
        (INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)),
        (PRODUCE, 3, produce(b"small")),
    ]
    data = b"".join(joined(client.ask(*each)) for each in asked)
    whole = fed(ServerFrames(serves, most), data, [])
    assert [(key, version, number) for number, key, version, *_ in whole] == [
        (key, version, number) for number, (key, version, _) in enumerate(asked)
    ]
    assert whole[2][5] == records
    assert whole[3][5] == asked[3][2]
    for cuts in ([*range(1, 200)], [*range(len(data) - 300, len(data))]):
        assert fed(ServerFrames(serves, most), data, cuts) == whole
    for _ in range(50):
        cuts = sorted(rng.sample(range(len(data)), rng.choice((1, 5, 100))))
        assert fed(ServerFrames(serves, most), data, cuts) == whole


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "1195725856 bytes"),
        (b"\x80\0\0\0\0\0", "-2147483648 bytes"),
        (b"\0\0\0\x03\0\0\0", "3 bytes"),
        ((MOST + 1).to_bytes(4, "big") + b"\0\0", f"4 to {MOST} may come"),
        (framed(b"\0\x12\0\0\0\0\0\0"), "no header"),
        (framed(header(18, 0, 1)[:-1]), "no header with a client id of 1"),
        (framed(header(18, 3, 1)), "the tags of its header do not end"),
        (framed(header(18, 3, 1, tags=b"\xff\xff\xff\xff\xff\xff")), "more than five bytes"),
        (framed(header(18, 3, 1, tags=b"\xff\xff\x7f")), f"at most {MOST_TAGS}"),
        (framed(header(18, 3, 1, tags=b"\0") + b"\x05ab"), "API 18, version 3, is wrong"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_request_ends_the_connection_and_says_why(sent, reason):
    frames = ServerFrames(serves, most)
    frames.receive(sent)
    assert frames.next() is None
    assert reason in frames.failure
    frames.receive(framed(header(18, 0, 2)))
    assert frames.next() is None, "nothing is taken after it"


def test_tags_of_a_header_and_bytes_behind_a_message_are_skipped_and_a_long_client_id_is_cut():
    frames = ServerFrames(serves, most)
    frames.receive(framed(header(18, 3, 7, b"n" * 3000, b"\x02\x00\x03abc\x05\x00") + b"\x02a\x021\0" + b"???"))
    request = frames.next()
    assert (request.correlation_id, request.client_id) == (7, "n" * CLIENT_ID)
    assert request.message == ApiVersionsRequest("a", "1")
    frames.receive(framed(struct.pack(">hhih", 18, 0, 8, -1)))
    assert frames.next().client_id == ""


@pytest.mark.parametrize(("key", "version"), [(18, 9), (3, 99), (999, 0), (-1, 0), (0, 2)])
def test_what_is_not_served_is_a_request_without_a_message(key, version):
    frames = ServerFrames(serves, most)
    frames.receive(framed(header(key, version, 5) + b"whatever"))
    request = frames.next()
    assert (request.key, request.version, request.correlation_id, request.message) == (key, version, 5, None)


def test_a_size_is_only_a_promise():
    frames = ServerFrames(serves, most)
    sent = framed(bytes(MOST))
    frames.receive(sent[:6])
    assert frames.place() is not None
    assert frames.held() <= SMALL
    arrived = 2
    for size in (10, 100, 1000, 10_000, 100_000, MIB):
        frames.receive(sent[4 + arrived : 4 + arrived + size])
        arrived += size
        assert arrived <= frames.held() <= max(SMALL, GROWS * arrived)
    place = frames.place()
    assert arrived + len(place) <= MOST, "what is behind a frame is not read into it"


def test_each_api_has_its_own_bound():
    frames = ServerFrames(serves, lambda key: 1000 if key == PRODUCE else 100)
    frames.receive(framed(header(PRODUCE, 3, 1) + bytes(500)))
    assert not frames.failure
    frames.receive(framed(header(18, 0, 1) + bytes(500)))
    assert "511 bytes" in frames.failure


def test_answers_leave_in_the_order_of_the_requests_and_each_says_when_it_has():
    client, frames = ClientFrames("c", MOST), ServerFrames(serves, most)
    requests = 5
    for _ in range(requests):
        frames.receive(joined(client.ask(INIT_PRODUCER_ID, 4, InitProducerIdRequest())))
        assert frames.next() is not None
    gone = []
    for number in (3, 1, 2, 0):
        body = answer_body(INIT_PRODUCER_ID, 4, InitProducerIdResponse(producer_id=number))
        sends = frames.answer(number, None if number == 2 else body, lambda number=number: gone.append(number))
        assert sends is frames.has_to_send is (number == 0)
    sent = b""
    while pieces := frames.to_send(7):
        assert len(joined(pieces)) <= 7, "a large answer leaves in parts"
        sent += joined(pieces)
    for call in frames.gone:
        call()
    assert gone == [0, 1, 2, 3]
    assert frames.under_way == 1
    answered = []
    while sent:
        size, correlation_id = struct.unpack_from(">ii", sent)
        answered.append(correlation_id)
        sent = sent[4 + size :]
    assert answered == [0, 1, 3], "the other one has no answer, like a produce with acks=0"


def test_of_many_small_requests_only_some_are_cut_at_a_time():
    frames, count = ServerFrames(serves, most), 10_000
    sent = b"".join(framed(header(18, 0, number)) for number in range(count)) + framed(
        header(PRODUCE, 3, count) + bytes(3 * LARGE)
    )
    frames.receive(sent[:100_000])
    assert frames.held() <= 110_000
    frames.receive(sent[100_000:-LARGE])
    assert frames.place() is None, "others come before"
    frames.receive(sent[-LARGE:])
    seen = []
    while (request := frames.next()) is not None:
        seen.append(request.correlation_id)
        frames.answer(request.number, [])
        frames.to_send(MIB)
    assert seen == list(range(count + 1))


def test_a_client_reads_the_answers_to_its_requests():
    client, frames = ClientFrames("c", MOST), ServerFrames(serves, most)
    response = ApiVersionsResponse(api_keys=[ApiVersionsResponseApiKey(18, 0, 4)])
    for key, version, message, answer in (
        (API_VERSIONS, 3, ApiVersionsRequest("a", "1"), response),
        (INIT_PRODUCER_ID, 4, InitProducerIdRequest(), InitProducerIdResponse(producer_id=7)),
    ):
        frames.receive(joined(client.ask(key, version, message)))
        request = frames.next()
        assert request.message == message
        frames.answer(request.number, answer_body(key, version, answer))
    client.receive(joined(frames.to_send(MIB)))
    (first, versions), (second, producer) = client.answers()
    assert (first, versions.api_keys, second, producer.producer_id) == (0, response.api_keys, 1, 7)
    client.receive(framed(bytes(4) + b"unasked"))
    with pytest.raises(BadFrame, match="is next"):
        list(client.answers())


def test_requests_wait_while_many_are_under_way_or_their_answers_are_not_taken(monkeypatch):
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 3)
    frames = ServerFrames(serves, most)
    frames.receive(b"".join(framed(header(18, 0, number)) for number in range(9)))
    assert [frames.next().number for _ in range(3)] == [0, 1, 2]
    assert frames.next() is None
    frames.answer(0, [bytes(MOST_UNSENT + MIB)])
    assert len(joined(frames.to_send(MIB))) == MIB
    assert frames.next() is None
    frames.to_send(MIB)
    assert frames.next() is None, "the last bytes of it wait"
    frames.to_send(MIB)
    assert frames.next().number == 3
    frames.answer(2, [bytes(2 * MIB)])
    frames.answer(1, [b""])
    frames.to_send(100)
    assert frames.under_way == 2
    assert frames.next() is None, "a large answer waits"
    frames.drop()
    assert not frames.under_way
    assert not frames.held()


def test_large_requests_wait_for_the_answers_to_others_and_produces_do_not():
    large = framed(header(18, 0, 0) + bytes(MOST_ASKED))
    frames = ServerFrames(serves, most)
    frames.receive(3 * large)
    assert frames.next().number == 0
    assert frames.next() is None, "its objects take up to eight times as much, until it is answered"
    frames.answer(0, [b""])
    frames.to_send(100)
    assert frames.next().number == 1
    assert frames.next() is None
    frames = ServerFrames(serves, most)
    body = header(PRODUCE, 3, 0) + struct.pack(">hhii", -1, -1, 0, 0) + bytes(MOST_ASKED)
    frames.receive(3 * framed(body))
    assert [frames.next().number for _ in range(3)] == [0, 1, 2]


def test_a_frame_that_would_become_many_objects_is_refused_before_they_take_much_memory():
    frames = ServerFrames(serves, most)
    count = 130_000  # topics with an empty name, each of 16 bytes
    frames.receive(framed(header(CREATE_TOPICS, 2, 1) + struct.pack(">i", count) + bytes(16 * count + 5)))
    tracemalloc.start()
    try:
        assert frames.next() is None
        assert tracemalloc.get_traced_memory()[1] <= 2 * MAX_MEMORY
    finally:
        tracemalloc.stop()
    assert "API 19, version 2, is wrong" in frames.failure
