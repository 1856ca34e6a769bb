"""A Kafka cluster of three nodes, one of which is killed and comes back while producers go on."""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from tests.interop.broker import KafkaBroker, nodes
from tests.interop.kafka import Kafka

KILLED = 2
TOPICS = {"plain": ("none", 1), "orders": ("lz4", 3), "flights": ("zstd", 2)}  # codec, partitions
_CONFIG = {"min.insync.replicas": 2, "segment.index.bytes": 8192}
_SEGMENT_BYTES = 50_000
_PROPERTIES = """\
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
replica.high.watermark.checkpoint.interval.ms=1000
replica.fetch.min.bytes=20000
replica.fetch.wait.max.ms=200
controlled.shutdown.enable=false
"""  # followers append several batches at once; and all stop at once, with nobody left to hand leaderships to
_WAIT_S = 200
_PRODUCERS = 3  # of a topic: followers find several batches each time
_PER_ROUND = 60  # records of a producer
_ROUND_S = 0.2


async def admin_of(addresses: list[str]) -> AIOKafkaAdminClient:
    """Once all brokers are in the metadata. Those of 3.3 take connections before any is."""
    while True:
        admin = AIOKafkaAdminClient(bootstrap_servers=addresses)
        with suppress(KafkaError, OSError):
            await admin.start()
            if len((await admin.describe_cluster())["brokers"]) == len(addresses):
                return admin
        await admin.close()
        await asyncio.sleep(0.2)


class KafkaCluster:
    """Nodes 1 to 3, each a broker and a controller; `kill` leaves nothing running."""

    def __init__(self, kafka: Kafka, home: Path) -> None:
        cluster = nodes(3)
        self._segment_bytes = kafka.segment_bytes
        with ThreadPoolExecutor(3) as several:
            made = [
                several.submit(KafkaBroker, kafka, home / str(node.id), cluster, node.id, _PROPERTIES)
                for node in cluster
            ]
        self.brokers = {node.id: broker.result() for node, broker in zip(cluster, made, strict=True)}

    @property
    def addresses(self) -> list[str]:
        return [broker.address for broker in self.brokers.values()]

    @property
    def directories(self) -> dict[int, Path]:
        return {number: broker.data for number, broker in self.brokers.items()}

    def start(self) -> None:
        """All three, and the topics."""
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.wait_until_serving()
        asyncio.run(self._create_topics())

    async def _create_topics(self) -> None:
        async with asyncio.timeout(_WAIT_S):
            admin = await admin_of(self.addresses)
            try:
                config = {**_CONFIG, self._segment_bytes: _SEGMENT_BYTES}
                topics = [
                    NewTopic(name, partitions, 3, topic_configs=config) for name, (_, partitions) in TOPICS.items()
                ]
                await admin.create_topics(topics)
            finally:
                await admin.close()

    def in_sync(self) -> set[int]:
        """The brokers that are in sync in every partition."""
        return asyncio.run(self._in_sync())

    async def _in_sync(self) -> set[int]:
        async with asyncio.timeout(_WAIT_S):
            admin = AIOKafkaAdminClient(bootstrap_servers=self.addresses)
            await admin.start()
            try:
                topics = await admin.describe_topics(list(TOPICS))
            finally:
                await admin.close()
        return set(self.brokers).intersection(
            *(partition["isr"] for topic in topics for partition in topic["partitions"])
        )

    def stop(self) -> None:
        """All at once, in order."""
        for broker in self.brokers.values():
            broker.ask_to_stop()
        for broker in self.brokers.values():
            broker.wait_until_stopped()

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def log_tails(self) -> str:
        return "\n".join(f"end of {broker.log_file}:\n{broker.log_tail()}" for broker in self.brokers.values())


@contextmanager
def running(kafka: Kafka, home: Path) -> Iterator[KafkaCluster]:
    """A cluster that has started. Nothing is left running, and an error comes with what the brokers have said."""
    cluster = KafkaCluster(kafka, home)
    try:
        cluster.start()
        yield cluster
    except BaseException:
        print(cluster.log_tails())
        raise
    finally:
        cluster.kill()


class Load:
    """Idempotent producers, a few for each topic; as a context manager it runs in a thread of its own."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self.acknowledged: Counter[tuple[str, int]] = Counter()  # records, by topic and partition

    def __enter__(self) -> "Load":
        self._running = self._thread.submit(asyncio.run, self._run())
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._running.result(_WAIT_S)
        self._thread.shutdown()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as producing:
            for topic, (codec, partitions) in TOPICS.items():
                for _ in range(_PRODUCERS):
                    producing.create_task(self._produce(topic, None if codec == "none" else codec, partitions))

    async def _produce(self, topic: str, codec: str | None, partitions: int) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._addresses,
            compression_type=codec,
            enable_idempotence=True,
            max_batch_size=2000,
            request_timeout_ms=1000 * _WAIT_S,  # all brokers may need long to tell of a topic
        )
        await producer.start()
        try:
            number = 0
            while not self._stop.is_set():
                sent = []
                for _ in range(_PER_ROUND):
                    number += 1
                    partition = number % partitions
                    value = os.urandom(40) + b"%d of %s, " % (number, topic.encode()) * 4
                    sent.append(await producer.send(topic, value, partition=partition))
                for done in sent:
                    record = await done
                    self.acknowledged[topic, record.partition] += 1
                await asyncio.sleep(_ROUND_S)
        finally:
            await producer.stop()

    def wait_for(self, more: int) -> None:
        """Until every partition has acknowledged `more` records than now."""
        before = Counter(self.acknowledged)
        places = [(topic, partition) for topic, (_, partitions) in TOPICS.items() for partition in range(partitions)]
        self.wait_until(
            lambda: all(self.acknowledged[place] >= before[place] + more for place in places),
            lambda: f"{more} more records in each partition; before {before}, now {self.acknowledged}",
        )

    def wait_until(self, condition: Callable[[], bool], told: Callable[[], str]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            if self._running.done():
                self._running.result()
            assert time.monotonic() < deadline, f"not within {_WAIT_S} s: {told()}"
            time.sleep(0.2)
