"""The clients that speak Kafka's protocol share this: connections, and what they know of leaders."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from replog.errors import ReplogError
from replog.kafka import messages
from replog.kafka.frames import ClientFrames
from replog.rpc.transport import Stream
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.network.talks import KAFKA
from replog.topic import TopicPartition

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID = 0, 1, 2, 3, 22
VERSIONS = {PRODUCE: (12, 13), FETCH: (12, 17), LIST_OFFSETS: (8, 10), METADATA: (12,), INIT_PRODUCER_ID: (4, 5)}
TIMEOUT_S = 1.0


class Connection:
    """A connection to one broker; after any error it is `closed`."""

    def __init__(self, stream: Stream) -> None:
        self.closed = False
        self._stream = stream
        self._frames = ClientFrames("simulated", 1 << 26)
        self._asked = deque[asyncio.Future[Any]]()
        self._reader = asyncio.create_task(self._read())

    async def ask(self, key: int, version: int, message: Any, cut: float) -> Any:
        """Return the answer; None if none came in time, and hang up then, as Kafka's clients do, or if the connection
        ends. The request leaves in two pieces."""
        self._asked.append(asked := asyncio.get_running_loop().create_future())
        data = b"".join(self._frames.ask(key, version, message))
        middle = 1 + int(cut * (len(data) - 1))
        self._stream.post(data[:middle])
        self._stream.post(data[middle:])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await asked
        except TimeoutError:
            self.close()
            return None

    async def _read(self) -> None:
        try:
            while (data := await self._stream.receive()) is not None:
                self._frames.receive(data)
                for _, answer in self._frames.answers():
                    self._tell(answer)
        except ReplogError:
            pass
        self.close()

    def _tell(self, answer: Any) -> None:
        if not (asked := self._asked.popleft()).done():
            asked.set_result(answer)

    def close(self) -> None:
        self.closed = True
        self._stream.cancel()
        while self._asked:
            self._tell(None)


class KafkaClient:
    """A client with a connection to each broker that it asks. Like Kafka's, it knows leaders by Metadata alone."""

    def __init__(self, kernel: Kernel, name: str, bootstrap: str) -> None:
        self.kernel = kernel
        self.rng = kernel.stream(f"{name} itself")
        self.leaders: dict[TopicPartition, tuple[str, int]] = {}  # address, and leader epoch
        self.topic_ids: dict[str, bytes] = {}
        self._bootstrap = bootstrap.split(",")
        self._versions = {key: self.rng.choice(versions) for key, versions in VERSIONS.items()}
        self._transport = kernel.transport()
        self._connections: dict[str, Connection] = {}

    async def ask(self, address: str, key: int, message: Any) -> Any:
        """Return the answer, or None."""
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = Connection(self._transport.connect(address).open(KAFKA))
        return await connection.ask(key, self._versions[key], message, self.rng.random())

    async def ask_any(self, key: int, message: Any) -> Any:
        """Ask one broker after the other, with rests, until one answers."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))
            if (answer := await self.ask(self.rng.choice(self._bootstrap), key, message)) is not None:
                return answer

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

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
