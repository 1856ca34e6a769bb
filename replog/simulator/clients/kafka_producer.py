"""A producer that speaks Kafka's protocol: idempotent, acks=all, with several requests of a partition under way."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from replog.client.producing.accumulator import ProducerBatch
from replog.client.producing.deliveries import Delivery, DeliveryFailed, Outcome
from replog.client.records import BatchBuilder, Headers
from replog.errors import RETRIABLE, ErrorCode
from replog.kafka import messages
from replog.simulator.clients.kafka_client import INIT_PRODUCER_ID, PRODUCE, KafkaClient
from replog.simulator.cluster.kernel import Kernel
from replog.topic import TopicPartition

IN_FLIGHT = 5  # batches of a partition: a leader remembers so many (PS-1)
DELIVERY_TIMEOUT_S = 4.0


@dataclass
class _Lane:
    """A partition's batches without an outcome, in their order, and the number of the next one."""

    batches: deque[ProducerBatch] = field(default_factory=deque)
    epoch: int = 0
    sequence: int = 0


class KafkaProducer(KafkaClient):
    """The workload uses it as it uses a `Producer`. What is sent in one moment is a batch."""

    def __init__(self, kernel: Kernel, name: str, bootstrap: str) -> None:
        super().__init__(kernel, name, bootstrap)
        self._id = -1
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, *, headers: Headers = ()
    ) -> Delivery:
        while self._id < 0:
            answer = await self.ask_any(INIT_PRODUCER_ID, messages.InitProducerIdRequest(producer_id=-1))
            self._id = -1 if answer.error_code else answer.producer_id
        tp, now_s = TopicPartition(topic, partition), self.kernel.now_s
        batches = self._lanes.setdefault(tp, _Lane()).batches
        if not batches or batches[-1].data or batches[-1].created != now_s:
            batches.append(ProducerBatch(Outcome(tp), 0, BatchBuilder(1 << 20), now_s))
            if len(batches) == 1:
                self._tasks.append(asyncio.create_task(self._drive(tp, self._lanes[tp])))
        builder, now_ms = batches[-1].records, self.kernel.wall_ms()
        builder.append(now_ms, key, value, headers)
        return Delivery(batches[-1].outcome, builder.count - 1, now_ms)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)
        await super().close()

    async def _drive(self, tp: TopicPartition, lane: _Lane) -> None:
        """A batch goes alone after a failure: a leader that does not know the producer takes any sequence."""
        failed = True
        while lane.batches:
            trying = list(lane.batches)[: 1 if failed else IN_FLIGHT]
            answers = await asyncio.gather(*(self._try(tp, lane, batch) for batch in trying))
            for batch, (code, offset) in zip(trying, answers, strict=True):
                if failed := code is not ErrorCode.NONE:
                    behind = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch is not trying[0]
                    late = self.kernel.now_s > batch.created + DELIVERY_TIMEOUT_S
                    if late or not (behind or code in RETRIABLE):
                        self._give_up(lane, code)
                    else:
                        await self.find_leaders([tp.topic])
                    break
                batch.outcome.base_offset = offset
                lane.batches.popleft().outcome.settle()

    async def _try(self, tp: TopicPartition, lane: _Lane, batch: ProducerBatch) -> tuple[ErrorCode, int]:
        if tp not in self.leaders:
            return ErrorCode.LEADER_NOT_AVAILABLE, -1
        if not batch.data:
            batch.data = batch.records.build(self._id, lane.epoch, lane.sequence)
            lane.sequence += batch.records.count
        data = messages.ProduceRequestPartitionData(tp.partition, b"".join(batch.data))
        topic = messages.ProduceRequestTopicData(tp.topic, self.topic_ids[tp.topic], [data])
        request = messages.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        if (answer := await self.ask(self.leaders[tp][0], PRODUCE, request)) is None:
            return ErrorCode.NETWORK_EXCEPTION, -1
        row = answer.responses[0].partition_responses[0]
        return ErrorCode(row.error_code), row.base_offset

    @staticmethod
    def _give_up(lane: _Lane, code: ErrorCode) -> None:
        """Fail all batches: the log would refuse those behind the first one. The next ones have a new epoch."""
        while lane.batches:
            batch = lane.batches.popleft()
            batch.outcome.error = DeliveryFailed(code, f"given up after {code.name}", batch.data is not None)
            batch.outcome.settle()
        lane.epoch, lane.sequence = lane.epoch + 1, 0
