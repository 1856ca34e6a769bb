"""A producer that speaks Kafka's protocol: idempotent, acks=all, with several requests of a partition under way."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from replog.client.producing.deliveries import DeliveryFailed, RecordMetadata
from replog.client.records import BatchBuilder
from replog.errors import RETRIABLE, ErrorCode, ReplogError
from replog.kafka import messages
from replog.log.offsets import NO_TIMESTAMP
from replog.simulator.clients.kafka_client import INIT_PRODUCER_ID, PRODUCE, KafkaClient, World
from replog.simulator.clients.transactor import KEYS
from replog.simulator.history import ProducerSend
from replog.topic import TopicPartition

IN_FLIGHT = 5  # batches of a partition: a leader remembers so many (PS-1)
DELIVERY_TIMEOUT_S = 4.0
Told = Callable[[ProducerSend], None]


async def produce(name: str, rng: Random, world: World, stop: asyncio.Event, told: Told) -> None:
    """Be one producer after the other, each with an id of its own."""
    number = life = 0
    while not stop.is_set():
        life += 1
        client = KafkaClient(world, rng)
        producer = _Producer(world, client, told)
        await producer.begin()
        ends = world.kernel.now_s + rng.uniform(3.0, 40.0)
        while not stop.is_set() and world.kernel.now_s < ends and not producer.broken:
            sends, tp = list[ProducerSend](), rng.choice(world.partitions)
            for _ in range(rng.choice((1, 1, 2, 6))):
                number += 1
                value = b"%s %d %s" % (name.encode(), number, b"." * rng.randrange(120))
                sends.append(ProducerSend(f"{name}.{life}", tp, value, -1, True, world.kernel.now_s))
                sends[-1].key = rng.choice(KEYS) if tp.topic in world.history.compacted else None
            producer.send(tp, sends)
            await asyncio.sleep(rng.expovariate(4.0))
        await asyncio.gather(*producer.tasks)
        client.close()


@dataclass(eq=False)
class _Batch:
    sends: list[ProducerSend]
    records: bytes
    until_s: float
    tried: bool = False  # it may be in the log


class _Producer:
    """Sends each partition's batches in their order. After one that fails for good it is `broken`, for the log would
    refuse those behind it."""

    def __init__(self, world: World, client: KafkaClient, told: Told) -> None:
        self.broken = False
        self.tasks: list[asyncio.Task[None]] = []
        self._world = world
        self._client = client
        self._told = told
        self._id = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._lanes: dict[TopicPartition, deque[_Batch]] = {}

    async def begin(self) -> None:
        while self._id[0] < 0:
            answer = await self._client.ask_any(INIT_PRODUCER_ID, messages.InitProducerIdRequest(producer_id=-1))
            self._id = (-1, -1) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def send(self, tp: TopicPartition, sends: list[ProducerSend]) -> None:
        self._world.history.sends += sends
        builder, sequence = BatchBuilder(1 << 20), self._sequences.get(tp, 0)
        for send in sends:
            builder.append(self._world.kernel.wall_ms(), send.key, send.value, ())
        self._sequences[tp] = sequence + len(sends)
        lane, records = self._lanes.setdefault(tp, deque()), b"".join(builder.build(*self._id, sequence))
        lane.append(_Batch(sends, records, self._world.kernel.now_s + DELIVERY_TIMEOUT_S))
        if len(lane) == 1:
            self.tasks.append(asyncio.create_task(self._drive(tp, lane)))

    async def _drive(self, tp: TopicPartition, lane: deque[_Batch]) -> None:
        """A batch goes alone after a failure: a leader that does not know the producer takes any sequence."""
        failed = True
        while lane:
            trying = list(lane)[: 1 if failed else IN_FLIGHT]
            answers = await asyncio.gather(*(self._try(tp, batch) for batch in trying))
            failed = False
            for batch, (code, offset) in zip(trying, answers, strict=True):
                if failed := code is not ErrorCode.NONE:
                    behind = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch is not trying[0]
                    if self._world.kernel.now_s > batch.until_s or not (behind or code in RETRIABLE):
                        self.broken = True
                        while lane:
                            self._settle(lane.popleft(), code, -1)
                    else:
                        await self._client.find_leaders([tp.topic])
                    break
                self._settle(lane.popleft(), code, offset)

    async def _try(self, tp: TopicPartition, batch: _Batch) -> tuple[ErrorCode, int]:
        if tp not in self._client.leaders:
            return ErrorCode.LEADER_NOT_AVAILABLE, -1
        batch.tried = True
        data = messages.ProduceRequestPartitionData(tp.partition, batch.records)
        topic = messages.ProduceRequestTopicData(tp.topic, self._client.topic_ids[tp.topic], [data])
        request = messages.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        try:
            answer = await self._client.ask(self._client.leaders[tp][0], PRODUCE, request)
        except ReplogError as error:
            return error.code, -1
        row = answer.responses[0].partition_responses[0]
        return ErrorCode(row.error_code), row.base_offset

    def _settle(self, batch: _Batch, code: ErrorCode, offset: int) -> None:
        now_s, history = self._world.kernel.now_s, self._world.history
        for number, send in enumerate(batch.sends):
            if code is ErrorCode.NONE:
                at = offset + number if offset >= 0 else -1
                history.acknowledged(send, RecordMetadata(*send.partition, at, NO_TIMESTAMP), now_s)
            else:
                history.failed(send, DeliveryFailed(code, f"given up after {code.name}", batch.tried), now_s)
            self._told(send)
