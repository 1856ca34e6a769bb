"""A connection of bytes, as Kafka's clients have one, over the simulated network."""

import asyncio
from collections import deque
from collections.abc import Iterator

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.transport import TalkWire
from replog.simulator.network.talks import KAFKA
from tests.replog.simulator.hosts import Pair


class Echo:
    """Says everything again, in capitals; hangs up after "bye", and reads no more after "hush"."""

    since_ms = 0
    places = pending = has_to_send = False

    def __init__(self, wire: TalkWire) -> None:
        self.closed = False
        self._wire = wire
        self._answers = deque[bytes]()

    def place(self) -> memoryview | None:
        return None

    def receive(self, data: memoryview, now_ms: int) -> None:
        assert now_ms >= self.since_ms
        self._answers.append(bytes(data).upper())
        self._wire.write()
        if data == b"bye":
            self._wire.hang_up("it said so")
        self._wire.read(data != b"hush")

    def landed(self, size: int, now_ms: int) -> None:
        raise AssertionError(f"{size} bytes landed nowhere")

    def to_send(self, size: int) -> list[Buffer]:
        return [self._answers.popleft()[:size]] if self._answers else []

    def written(self) -> None:
        pass

    def held(self) -> int:
        return 0

    def busy(self) -> bool:
        return bool(self._answers)

    def tasks(self) -> list[asyncio.Task[None]]:
        return []

    def drain(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def talks(pair: Pair) -> Iterator[list[Echo]]:
    made: list[Echo] = []

    def new(wire: TalkWire) -> Echo:
        made.append(Echo(wire))
        return made[-1]

    pair.listening.serve_kafka(new, grpc=True)
    return made


def test_bytes_go_both_ways_in_their_order_until_the_server_hangs_up(pair, talks):
    async def talk() -> list[bytes | None]:
        stream = pair.channel.open(KAFKA)
        for said in (b"one", b"two", b"bye", b"unheard"):
            stream.post(said)
        return [await stream.receive(5.0) for _ in range(4)]

    assert pair.run(talk()) == [b"ONE", b"TWO", b"BYE", None]
    assert [echo.closed for echo in talks] == [True]


def test_a_server_that_does_not_read_leaves_bytes_to_the_network(pair, talks):
    async def talk() -> bytes | None:
        stream = pair.channel.open(KAFKA)
        stream.post(b"hush")
        stream.post(b"more")
        heard: bytes | None = await stream.receive(5.0)
        with pytest.raises(ReplogError, match="said nothing for 5 s"):
            await stream.receive(5.0)
        return heard

    assert pair.run(talk()) == b"HUSH"
    assert len(talks) == 1


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_client_hears_that_its_server_is_gone(pair, talks, end):
    """One that stops in order waits for what is under way, and not for clients that are silent."""

    async def talk() -> bytes | None:
        stream = pair.channel.open(KAFKA)
        stream.post(b"one")
        assert await stream.receive(5.0) == b"ONE"
        if end == "kill":
            pair.loop.kill(pair.server)
        else:
            pair.loop.spawn(pair.server, pair.listening.stop(30.0))
        heard: bytes | None = await stream.receive(2.0)
        return heard

    if end == "kill":
        with pytest.raises(ReplogError) as caught:
            pair.run(talk())
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
    else:
        assert pair.run(talk()) is None
        assert talks[0].closed


def test_a_server_hears_that_its_client_is_gone(pair, talks):
    async def talk() -> None:
        stream = pair.channel.open(KAFKA)
        stream.post(b"one")
        await stream.receive(5.0)
        stream.cancel()
        await asyncio.sleep(1.0)

    pair.run(talk())
    assert [echo.closed for echo in talks] == [True]
