"""The clients that speak Kafka's protocol share this: connections, and what they know of leaders."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.kafka.frames import ClientFrames
from replog.rpc.transport import Transport
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.history import History
from replog.simulator.network.talks import KAFKA
from replog.topic import TopicPartition

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID = 0, 1, 2, 3, 22
VERSIONS = {PRODUCE: (12, 13), FETCH: (12, 17), LIST_OFFSETS: (8, 10), METADATA: (12,), INIT_PRODUCER_ID: (4, 5)}
TIMEOUT_S = 1.0


class World(NamedTuple):
    """Every client is told this."""

    kernel: Kernel
    history: History
    partitions: Sequence[TopicPartition]
    bootstrap: Sequence[str]


class Connection:
    """A connection to one broker; after any error it is `closed`."""

    def __init__(self, client: "KafkaClient", transport: Transport, address: str) -> None:
        self.closed = False
        self._client = client
        self._stream = transport.connect(address).open(KAFKA)
        self._frames = ClientFrames("simulated", 1 << 26)
        self._asked = deque[asyncio.Future[Any]]()
        self._reader = asyncio.create_task(self._read())

    async def ask(self, key: int, message: Any) -> Any:
        """Return the answer. Raises NETWORK_EXCEPTION; REQUEST_TIMED_OUT, and hangs up then, as Kafka's clients do."""
        self._asked.append(answer := asyncio.get_running_loop().create_future())
        data = b"".join(self._frames.ask(key, self._client.versions[key], message))
        cut = self._client.rng.randrange(1, len(data))
        self._stream.post(data[:cut])
        self._stream.post(data[cut:])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError:
            self.close(error := ErrorCode.REQUEST_TIMED_OUT.error("no answer came in time"))
            raise error from None

    async def _read(self) -> None:
        error = ErrorCode.NETWORK_EXCEPTION.error("the broker has hung up")
        try:
            while (data := await self._stream.receive()) is not None:
                self._frames.receive(data)
                for _, answer in self._frames.answers():
                    if not (asked := self._asked.popleft()).done():
                        asked.set_result(answer)
        except ReplogError as lost:
            error = lost
        self.close(error)

    def close(self, error: ReplogError) -> None:
        self.closed = True
        self._stream.cancel()
        while self._asked:
            if not (asked := self._asked.popleft()).done():
                asked.set_exception(ReplogError(error.code, error.message))


class KafkaClient:
    """A client with a connection to each broker that it asks. Like Kafka's, it knows leaders by Metadata alone."""

    def __init__(self, world: World, rng: Random) -> None:
        self.rng = rng
        self.versions = {key: rng.choice(versions) for key, versions in VERSIONS.items()}
        self.leaders: dict[TopicPartition, tuple[str, int]] = {}  # address, and leader epoch
        self.topic_ids: dict[str, bytes] = {}
        self._bootstrap = world.bootstrap
        self._transport = world.kernel.transport()
        self._connections: dict[str, Connection] = {}

    async def ask(self, address: str, key: int, message: Any) -> Any:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = Connection(self, self._transport, address)
        return await connection.ask(key, message)

    async def ask_any(self, key: int, message: Any) -> Any:
        """Ask one broker after the other, with rests, until one answers."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))
            try:
                return await self.ask(self.rng.choice(self._bootstrap), key, message)
            except ReplogError:
                pass

    async def find_leaders(self, topics: Iterable[str]) -> None:
        """Learn who leads, after a rest. A broker that does not know a topic yet, or has an older epoch, is behind."""
        asked = [messages.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        answer = await self.ask_any(METADATA, messages.MetadataRequest(topics=asked))
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        for topic in (topic for topic in answer.topics if not topic.error_code):
            self.topic_ids[topic.name] = bytes(topic.topic_id)
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                if row.leader_id in addresses and row.leader_epoch >= self.leaders.get(tp, ("", -1))[1]:
                    self.leaders[tp] = addresses[row.leader_id], row.leader_epoch

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close(ErrorCode.NETWORK_EXCEPTION.error("the client is closed"))
