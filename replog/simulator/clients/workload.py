"""The clients of a simulation: the shipped producers, consumers and admin client; a history notes all they do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from random import Random
from typing import Any, Literal, TypeVar

from replog.client.admin import Admin
from replog.client.consuming.consumer import Consumer, LogTruncated
from replog.client.producing.deliveries import Delivery
from replog.client.producing.producer import Producer
from replog.client.records import Record
from replog.errors import ErrorCode, ReplogError
from replog.simulator.clients.kafka_consumer import KafkaConsumer
from replog.simulator.clients.kafka_producer import KafkaProducer
from replog.simulator.clients.stranger import ask_everything
from replog.simulator.clients.transactor import KEYS, Transactor
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.history import Deletion, Drained, Latest, Outcome, Poll, ProducerSend, Read, Seek
from replog.simulator.plan import Plan
from replog.simulator.runtime.process import SimulatedProcess
from replog.topic import TopicPartition

T = TypeVar("T")

Acks = Literal["all", 1, 0]
AnyConsumer = Consumer | KafkaConsumer

DELIVERY_TIMEOUT_MS = 4000
REQUEST_TIMEOUT_MS = 1000
DRAIN_TIMEOUT_S = 30.0
DELETED_KEYS = KEYS[:3]  # some of their records are tombstones
IDENTITY = "is"  # the header by which a tombstone is known
PRODUCERS: tuple[tuple[Acks, bool, float], ...] = (  # acks, idempotent, records a second
    ("all", True, 8.0),
    ("all", True, 4.0),
    ("all", False, 3.0),
    (1, False, 2.0),
    (0, False, 1.0),
)


class Workload:
    """Clients of one cluster. Each life of a client is a simulated process of its own."""

    def __init__(self, kernel: Kernel, plan: Plan, cluster: SimulatedCluster) -> None:
        self.history = cluster.history
        self.history.retained = {topic.name: None for topic in plan.topics if topic.retained}
        self.history.compacted = {topic.name: None for topic in plan.topics if topic.compacted}
        self.history.transactional = {topic.name: None for topic in plan.topics if topic.transactional}
        self.partitions = [
            TopicPartition(topic.name, number) for topic in plan.topics for number in range(len(topic.assignment))
        ]
        self.truncations: list[LogTruncated] = []  # committed records that a consumer saw vanish
        self._kernel = kernel
        self._members = cluster.members
        self._bootstrap = cluster.bootstrap
        self._controller = cluster.controller_member.config.listeners
        self._permission = plan.profile.permission
        self._kafka = plan.profile.kafka
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._poller: asyncio.Task[None]
        self.clients: list[str] = []
        self.producers: list[str] = []
        self._stop = asyncio.Event()
        self._nothing_more_comes = asyncio.Event()
        self._scratch = 0
        self._scratch_partitions = plan.profile.scratch_partitions
        self._racks = (
            ("", *dict.fromkeys(plan.racks.values())) if plan.broker_settings["replica.selector.class"] else ("",)
        )

    # -- life cycles

    def start(self) -> None:
        producers = self._kernel.stream("how many producers").randint(2, len(PRODUCERS))
        consumers = self._kernel.stream("how many consumers").randint(1, 2)
        for number, (acks, idempotent, rate) in enumerate(PRODUCERS[:producers], 1):
            self.producers.append(f"producer-{number}")
            self._producers.append(self._run(self.producers[-1], self._produce, acks, idempotent, rate))
        for number in range(1, consumers + 1):
            self._consumers.append(self._run(f"consumer-{number}", self._consume))
        for number in (1, 2) if self._kafka else ():
            self.producers.append(f"producer-k{number}")
            self._producers.append(self._run(self.producers[-1], self._produce, "all", True, 10.0, True))
            self._consumers.append(self._run(f"consumer-k{number}", self._consume, True))
        self._poller = self._run("poller-1", self._poll_ends)
        self._producers.append(self._run("admin-1", self._administer))
        if self._permission:
            where = self._bootstrap.split(","), self._controller, self.partitions
            about = self._kernel, self.history, *where, self._stop
            self._producers.append(self._run("stranger-1", ask_everything, *about))
        if partitions := self._transactional():
            for number in (1, 2):
                transactor = Transactor(self._kernel, self._members, self.history, partitions, number, self._stop)
                self._producers.append(self._run(f"transactor-{number}", transactor.run))

    def _transactional(self) -> list[TopicPartition]:
        return [tp for tp in self.partitions if tp.topic in self.history.transactional]

    async def stop_producers(self) -> None:
        """Every record has its outcome when this returns."""
        self._stop.set()
        await asyncio.gather(*self._producers)

    async def stop_readers(self) -> None:
        """Stop all once the consumers, which were there during the faults, have read everything. Raises
        REQUEST_TIMED_OUT when that takes too long."""
        self._nothing_more_comes.set()
        await asyncio.gather(*self._consumers)
        self._poller.cancel()
        await asyncio.gather(self._poller, return_exceptions=True)

    def _run(self, name: str, client: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> asyncio.Task[None]:
        if name not in self.clients:
            self.clients.append(name)
        return self._kernel.loop.spawn(SimulatedProcess(name), client(name, self._kernel.stream(name), *arguments))

    async def _rest(self, seconds: float) -> None:
        """Sleep that long, or until it is time to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    # -- producers

    def _producer(self, name: str, rng: Random, acks: Acks, idempotent: bool) -> Producer:
        return Producer(
            self._bootstrap,
            acks=acks,
            enable_idempotence=idempotent,
            linger_ms=rng.choice((0, 5, 50)),
            batch_size=rng.choice((200, 16_384)),
            compression=rng.choice(("none", "none", "zstd", "gzip")),
            max_block_ms=3000,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            transport=self._kernel.transport(),
            rng=self._kernel.stream(f"{name} itself"),
            wall_clock_ms=self._kernel.wall_ms,
        )

    async def _produce(
        self, name: str, rng: Random, acks: Acks, idempotent: bool, rate: float, kafka: bool = False
    ) -> None:
        number = life = 0
        while not self._stop.is_set():
            life += 1
            ends = self._kernel.now_s + rng.uniform(3.0, 40.0)
            producer: Producer | KafkaProducer = (
                KafkaProducer(self._kernel, name, self._bootstrap)
                if kafka
                else self._producer(name, rng, acks, idempotent)
            )
            longest = rng.choice((120, 120, 120, 2500))  # characters of padding: more than many limits of bytes
            waiting: list[asyncio.Task[None]] = []
            while not self._stop.is_set() and self._kernel.now_s < ends:
                partition = rng.choice(self.partitions)
                sent: list[tuple[ProducerSend, Delivery]] = []
                for _ in range(rng.choice((1, 1, 2, 6))):
                    number += 1
                    value = b"%s %d %s" % (name.encode(), number, b"." * rng.randrange(longest))
                    send = ProducerSend(
                        f"{name}.{life}",
                        partition,
                        value,
                        -1 if acks == "all" else acks,
                        idempotent,
                        self._kernel.now_s,
                    )
                    if partition.topic in self.history.compacted:
                        send.key = rng.choice(KEYS)
                        send.tombstone = send.key in DELETED_KEYS and rng.random() < 0.3
                    self.history.sends.append(send)
                    try:
                        delivery = await _send(producer, send)
                    except ReplogError as error:
                        self.history.failed(send, error, self._kernel.now_s)
                        self._told(send)
                    else:
                        sent.append((send, delivery))
                if sent:
                    waiting.append(asyncio.create_task(self._settle(sent)))
                await self._rest(rng.expovariate(rate / 2.5))
            await producer.close()
            await asyncio.gather(*waiting)

    async def _settle(self, sent: list[tuple[ProducerSend, Delivery]]) -> None:
        """Wait for the outcomes of records of one partition, which come in this order."""
        for send, delivery in sent:
            try:
                self.history.acknowledged(send, await delivery, self._kernel.now_s)
            except ReplogError as error:
                self.history.failed(send, error, self._kernel.now_s)
            self._told(send)

    def _told(self, send: ProducerSend) -> None:
        value = send.value.rstrip(b".").decode()
        if send.outcome is Outcome.OK:
            self._kernel.trace.add("acknowledged", partition=send.partition, offset=send.offset, value=value)
        else:
            self._kernel.trace.add(
                f"send {send.outcome.value}", partition=send.partition, value=value, error=send.error
            )

    # -- consumers

    def _consumer(self, name: str, rng: Random, *, committed: bool = False) -> Consumer:
        return Consumer(
            self._bootstrap,
            isolation_level="read_committed" if committed else "read_uncommitted",
            auto_offset_reset="error",  # otherwise a reset of the client's own would miss in the history
            fetch_max_wait_ms=500,
            max_partition_fetch_bytes=rng.choice((200, 2000, 1 << 20)),
            client_rack=rng.choice(self._racks),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            transport=self._kernel.transport(),
            rng=self._kernel.stream(f"{name} itself"),
        )

    async def _consume(self, name: str, rng: Random, kafka: bool = False) -> None:
        """Read as one consumer after the other, each from the beginning, the last to the end."""
        life = 0
        while not self._nothing_more_comes.is_set():
            life += 1
            committed = bool(kafka or self.history.transactional) and rng.random() < 0.7
            consumer: AnyConsumer = (
                KafkaConsumer(self._kernel, name, self._bootstrap, committed=committed)
                if kafka
                else self._consumer(name, rng, committed=committed)
            )
            consumer.assign(self.partitions)
            client = f"{name}.{life}"
            ends = self._kernel.now_s + rng.uniform(3.0, 30.0)
            self._from_the_beginning(consumer, client)
            while self._kernel.now_s < ends and not self._nothing_more_comes.is_set():
                await self._read(consumer, client, rng.choice((None, 1, 7)), committed=committed)
            if self._nothing_more_comes.is_set():
                log_ends = await consumer.end_offsets(self.partitions, DRAIN_TIMEOUT_S)
                async for _ in self._to_the_end(consumer, client, log_ends, committed=committed):
                    pass
            await consumer.close()

    async def _to_the_end(
        self, consumer: AnyConsumer, client: str, ends: dict[TopicPartition, int], *, committed: bool
    ) -> AsyncIterator[Poll | None]:
        """Read up to `ends`. Raises REQUEST_TIMED_OUT."""
        until = self._kernel.now_s + DRAIN_TIMEOUT_S
        while behind := [tp for tp, end in ends.items() if await _position(consumer, tp) < end]:
            if self._kernel.now_s > until:
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{client} has not read all of {', '.join(map(str, behind))}")
            yield await self._read(consumer, client, None, committed=committed)

    def _from_the_beginning(self, consumer: AnyConsumer, client: str) -> None:
        for partition in consumer.assignment:
            self.history.reads.append(Seek(client, partition))
        consumer.seek_to_beginning()

    async def _read(
        self, consumer: AnyConsumer, client: str, max_records: int | None, *, committed: bool
    ) -> Poll | None:
        """Return what was read, maybe nothing, or None when it failed and all partitions begin again."""
        try:
            records = await consumer.fetch(1.0, max_records)
        except ReplogError as error:
            self._kernel.trace.add("poll failed", error=str(error))
            if isinstance(error, LogTruncated):
                self.truncations.append(error)
            await asyncio.sleep(0.2)
            self._from_the_beginning(consumer, client)
            return None
        poll = Poll(
            client,
            tuple(Read(TopicPartition(r.topic, r.partition), r.offset, _value(r)) for r in records),
            self._kernel.now_s,
            committed,
        )
        if records:
            self.history.reads.append(poll)
        return poll

    async def _poll_ends(self, name: str, rng: Random) -> None:
        """Ask for end offsets, as one client for the whole time: it presents the newest epoch that it has seen."""
        consumer = self._consumer(name, rng)
        while True:
            partition, invoked_s = rng.choice(self.partitions), self._kernel.now_s
            offset = await self._answered(partition, consumer.end_offsets([partition], 5.0))
            if offset is not None:
                self.history.latest.append(Latest(name, partition, offset, invoked_s, self._kernel.now_s))
            if rng.random() < 0.2:  # FE-22: the record that is found for a time is not older than that time
                asked_ms = self._kernel.wall_ms() - rng.randrange(10_000)
                answer = await self._answered(partition, consumer.offsets_for_times({partition: asked_ms}, 5.0))
                if answer is not None and not (answer.offset >= 0 and answer.timestamp >= asked_ms):
                    self._kernel.trace.defect("found for a time", {"partition": partition, "asked_ms": asked_ms}, None)
            await asyncio.sleep(rng.expovariate(1.5))

    async def _answered(self, partition: TopicPartition, asked: Awaitable[Mapping[TopicPartition, T]]) -> T | None:
        try:
            return (await asked)[partition]
        except ReplogError as error:
            self._kernel.trace.add("ListOffsets failed", partition=partition, error=str(error))
            return None

    # -- administration

    async def _administer(self, name: str, rng: Random) -> None:
        admin = self._admin(name)
        while not self._stop.is_set():
            await self._rest(rng.expovariate(0.3))
            if self._stop.is_set():
                break
            if rng.random() < 0.6:
                partition = rng.choice(self.partitions)
                known = [s.offset for s in self.history.sends if s.partition == partition and s.outcome is Outcome.OK]
                offset = -1 if rng.random() < 0.2 else rng.randint(0, max(known, default=0) + 1)
                await self._delete_records(admin, name, partition, offset)
            else:
                await self._scratch_topic(admin, rng)
        await admin.close()

    async def administer_once(self, what: str, ask: Callable[[Admin], Awaitable[object]]) -> None:
        """Make one call with a new admin client; an error is only traced."""

        async def call(name: str, _rng: Random) -> None:
            admin = self._admin(name)
            try:
                self._kernel.trace.add(what, answer=str(await ask(admin)))
            except ReplogError as error:
                self._kernel.trace.add(f"{what} failed", error=str(error))
            await admin.close()

        await self._run("admin-2", call)

    def _admin(self, name: str) -> Admin:
        rng = self._kernel.stream(f"{name} itself")
        return Admin(self._bootstrap, timeout_ms=4000, transport=self._kernel.transport(), rng=rng)

    async def delete_committed(self, partition: TopicPartition, offset: int = -1) -> None:
        """Delete the records below `offset`; -1: below the high watermark."""
        await self.administer_once("delete", lambda admin: self._delete_records(admin, "admin-2", partition, offset))

    async def _delete_records(self, admin: Admin, name: str, partition: TopicPartition, offset: int) -> None:
        deletion = Deletion(name, partition, offset)
        self.history.deletions.append(deletion)
        try:
            deletion.low_watermark = (await admin.delete_records({partition: offset}))[partition]
            deletion.outcome = Outcome.OK
        except ReplogError as error:
            deletion.outcome = Outcome.UNKNOWN
            self._kernel.trace.add("DeleteRecords failed", partition=partition, offset=offset, error=str(error))
        else:
            self._kernel.trace.add("records deleted", partition=partition, low_watermark=deletion.low_watermark)

    async def _scratch_topic(self, admin: Admin, rng: Random) -> None:
        """Create and delete a topic again and again, each time with half of its partitions, until none is left.
        Nothing is written to it."""
        self._scratch += 1
        topic, partitions = f"scratch{self._scratch}", self._scratch_partitions
        self.history.deleted[topic] = None
        replicas = rng.choice((2, 3))
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "create": lambda: admin.create_topic(topic, partitions, replicas),
            "delete": lambda: admin.delete_topic(topic),
        }
        while partitions and not self._stop.is_set():
            for step, call in steps.items():
                try:
                    await call()
                except ReplogError as error:
                    self._kernel.trace.add(f"{step} topic failed", topic=topic, error=str(error))
                else:
                    self._kernel.trace.add(f"topic {step}d", topic=topic)
                await self._rest(rng.expovariate(1.0))
            partitions //= 2

    # -- the end

    async def drain(self) -> None:
        """Read everything once more with a fresh consumer, and transactional topics also with READ_COMMITTED. Raises
        REQUEST_TIMED_OUT when that takes too long."""
        self.history.drained = await self._drain("drain", self.partitions)
        if partitions := self._transactional():
            self.history.drained_committed = await self._drain("committed drain", partitions, committed=True)

    async def _drain(
        self, client: str, partitions: list[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, Drained]:
        consumer = self._consumer(client, self._kernel.stream(client), committed=committed)
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions, DRAIN_TIMEOUT_S)
        first = await consumer.beginning_offsets(partitions, DRAIN_TIMEOUT_S)
        self._from_the_beginning(consumer, client)
        drained: dict[TopicPartition, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
        async for poll in self._to_the_end(consumer, client, ends, committed=committed):
            if poll is None:  # retention overtook it in one partition
                drained = {partition: [] for partition in partitions}
            for record in poll.records if poll is not None else ():
                drained[record.partition].append((record.offset, record.value))
        last = await consumer.beginning_offsets(partitions, DRAIN_TIMEOUT_S)
        await consumer.close()
        # Otherwise records would seem lost that retention took meanwhile, or that only a later leader's log still has.
        starts = {tp: max(first[tp], last[tp]) for tp in partitions}
        return {
            tp: Drained(tp, starts[tp], ends[tp], tuple(record for record in records if record[0] >= starts[tp]))
            for tp, records in drained.items()
        }


async def _position(consumer: AnyConsumer, partition: TopicPartition) -> int:
    """Return the consumer's position, which also counts records that were skipped or cleaned; -1: not known yet."""
    try:
        return await consumer.position(partition, 1.0)
    except ReplogError:
        return -1


def _send(producer: Producer | KafkaProducer, send: ProducerSend) -> Coroutine[Any, Any, Delivery]:
    tp = send.partition
    if send.tombstone:
        return producer.send(tp.topic, None, send.key, tp.partition, headers=((IDENTITY, send.value),))
    return producer.send(tp.topic, send.value, send.key, tp.partition)


def _value(record: Record) -> bytes:
    """Return the value that identifies the record; a tombstone has it in a header."""
    return (dict(record.headers).get(IDENTITY) if record.value is None else record.value) or b""
