"""What goes together in a request, in virtual time, at a broker that answers when it is asked to."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from replog.client.metadata import Metadata
from replog.client.producing.accumulator import Accumulator, PartitionQueue
from replog.client.producing.deliveries import Delivery
from replog.client.producing.produce_stream import ENOUGH_BYTES, GATHER_S, ProduceStream
from replog.client.producing.sender import Sender
from replog.common.backoff import Backoff
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.v1 import log_pb2
from tests.replog.client.network import VirtualLoop

BATCH_SIZE = 1000
MAX_REQUEST_BYTES = 2 * ENOUGH_BYTES


class Broker:
    """The wire to it, and what came over that."""

    address = "one:1"

    def __init__(self) -> None:
        self.requests: list[log_pb2.ProduceRequest] = []
        self.reads = asyncio.Event()  # what nobody answers
        self._handle: Callable[[log_pb2.ProduceResponse], None]

    def connect(self, _address: str) -> "Broker":
        return self

    def open(self, _method: object) -> "Broker":
        return self

    def post(self, request: WithRecords[log_pb2.ProduceRequest]) -> None:
        self.requests.append(request.head)

    async def send(self, request: WithRecords[log_pb2.ProduceRequest]) -> None:
        self.requests.append(request.head)
        await self.reads.wait()

    async def each(self, handle: Callable[[log_pb2.ProduceResponse], None]) -> None:
        self._handle = handle
        await asyncio.Event().wait()

    async def finish(self) -> None:
        """The stream is still being opened, and stays so."""
        await asyncio.Event().wait()

    def cancel(self) -> None:
        pass

    @property
    def partitions(self) -> list[list[int]]:
        """Those of each request."""
        return [[named.partition for named in request.partitions] for request in self.requests]

    def answer(self, number: int) -> None:
        """A request, with the offset 0 for each of its batches."""
        request = self.requests[number]
        results = [log_pb2.ProducePartitionResult(topic=p.topic, partition=p.partition) for p in request.partitions]
        answer = log_pb2.ProduceAnswer(correlation_id=request.correlation_id, partitions=results)
        self._handle(log_pb2.ProduceResponse(answers=[answer]))


class Producing:
    """A stream, and the queues of four partitions that it takes from."""

    def __init__(self, acks: int = -1) -> None:
        self.broker = Broker()
        transport: Any = self.broker
        rng = random.Random(0)
        sender = Sender(
            Metadata(self.broker.address, transport, rng),
            Backoff(rng),
            acks=acks,
            max_request_bytes=MAX_REQUEST_BYTES,
            request_timeout_s=30.0,
            delivery_timeout_s=120.0,
            identity=None,
        )
        stream = self.stream = ProduceStream(sender, self.broker.address)
        loop = asyncio.get_running_loop()
        self.accumulator = sender.accumulator = Accumulator(
            batch_size=BATCH_SIZE,
            codec_number=0,
            buffer_memory=1 << 24,
            linger_s=0.0,
            clock=loop.time,
            ready=stream.offer,
            later=loop.call_later,
        )
        self.queues: list[PartitionQueue] = self.accumulator.grow("t", 4, BATCH_SIZE)

    async def send(self, partition: int, size: int = 10) -> Delivery:
        delivery = self.accumulator.append(self.queues[partition], 0, None, b"x" * size, ())
        await self.soon()
        return delivery

    async def soon(self) -> None:
        """Whatever can happen before time passes."""
        for _ in range(20):
            await asyncio.sleep(0)


def in_virtual_time(test: Callable[[Producing], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(Producing())

    def runs() -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(run())

    return runs


@in_virtual_time
async def test_what_is_sent_in_one_turn_of_the_loop_goes_together_in_the_next(producing):
    for queue in producing.queues:
        producing.accumulator.append(queue, 0, None, b"x", ())
    assert producing.broker.partitions == []
    await asyncio.sleep(0)
    assert producing.broker.partitions == [[0, 1, 2, 3]]


@in_virtual_time
async def test_what_comes_while_a_request_is_under_way_goes_together_when_the_answer_is_read(producing):
    for partition in range(4):
        await producing.send(partition)
    assert producing.broker.partitions == [[0]]
    producing.broker.answer(0)
    assert producing.broker.partitions == [[0], [1, 2, 3]]


@in_virtual_time
async def test_without_acks_a_request_is_delivered_and_the_next_one_goes_when_the_broker_has_read_it(producing):
    producing = Producing(acks=0)
    first = await producing.send(0)
    second = await producing.send(1)
    await asyncio.sleep(GATHER_S)
    assert (producing.broker.partitions, first.done()) == ([[0]], False)
    producing.broker.reads.set()
    await producing.soon()
    assert (producing.broker.partitions, first.done(), second.done()) == ([[0], [1]], True, True)


@in_virtual_time
async def test_a_request_without_an_answer_holds_the_next_one_up_for_a_moment_and_no_other(producing):
    await producing.send(0)
    await asyncio.sleep(GATHER_S / 2)
    await producing.send(1)
    assert producing.broker.partitions == [[0]]
    await asyncio.sleep(GATHER_S / 2)
    await producing.soon()
    assert producing.broker.partitions == [[0], [1]]
    producing.broker.answer(1)
    await producing.soon()
    await producing.send(2)
    assert producing.broker.partitions == [[0], [1], [2]]


@in_virtual_time
async def test_full_batches_are_gathered_until_they_are_enough_for_a_request(producing):
    await producing.send(0)
    producing.queues[1].retrying = True
    for _ in range(ENOUGH_BYTES // BATCH_SIZE // 2):
        await producing.send(1, BATCH_SIZE)
    await producing.send(1)
    producing.queues[1].retrying = False
    producing.accumulator.go_on(producing.queues[1])
    await producing.soon()
    assert producing.broker.partitions == [[0]]
    await producing.send(2, ENOUGH_BYTES // 2)
    assert producing.broker.partitions == [[0]], "its batch is not known to be full"
    await producing.send(3, ENOUGH_BYTES // 2)
    assert producing.broker.partitions == [[0]]
    producing.broker.answer(0)
    await producing.soon()
    assert set(producing.broker.partitions[1]) == {1, 2, 3}


@in_virtual_time
async def test_enough_in_full_batches_waits_for_nothing(producing):
    await producing.send(0)
    producing.queues[1].retrying = True
    await producing.send(1, ENOUGH_BYTES)
    await producing.send(1)
    producing.queues[1].retrying = False
    producing.accumulator.go_on(producing.queues[1])
    await producing.soon()
    assert producing.broker.partitions == [[0], [1, 1]]


@in_virtual_time
async def test_what_is_too_much_for_one_request_goes_in_the_next_one_at_once(producing):
    await producing.send(0)
    for partition in (1, 2, 3):
        await producing.send(partition, MAX_REQUEST_BYTES * 2 // 3)
    producing.broker.answer(0)
    await producing.soon()
    assert producing.broker.partitions == [[0], [1], [2], [3]]


@in_virtual_time
async def test_a_request_has_as_many_batches_as_a_broker_takes_and_the_next_one_goes_at_once(producing):
    small = 80
    producing.accumulator.grow("t", 4, small)
    await producing.send(0)
    producing.queues[1].retrying = producing.queues[2].retrying = True
    for partition, batches in ((1, MAX_BATCHES_PER_REQUEST + 100), (2, MAX_BATCHES_PER_REQUEST - 1)):
        for _ in range(batches):
            await producing.send(partition, small)
    for partition in (1, 2):
        producing.queues[partition].retrying = False
        producing.accumulator.go_on(producing.queues[partition])
    producing.broker.answer(0)
    await producing.soon()
    assert producing.broker.partitions[1:] == [[1] * MAX_BATCHES_PER_REQUEST, [2] * (MAX_BATCHES_PER_REQUEST - 1)]
    await producing.send(3)
    producing.broker.answer(1)
    await asyncio.sleep(GATHER_S)
    assert producing.broker.partitions[3] == [3, *[1] * 100]


@in_virtual_time
async def test_closing_waits_no_longer_for_a_stream_that_does_not_open(producing: Producing) -> None:
    begun_s = asyncio.get_running_loop().time()
    async with asyncio.timeout(60):
        await producing.stream.drain(5.0)
    assert asyncio.get_running_loop().time() - begun_s == 5.0
