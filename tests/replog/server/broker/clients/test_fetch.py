"""A consumer's stream lets go of what it has sent, and takes no room while it has nothing to read.

It leaves nothing behind for the garbage collector, which looks at old objects seldom (`replog.server.process`)."""

import asyncio
import contextlib
import gc
import sys

import pytest

from leader.consumer_session import ConsumerSession
from replog.errors import ReplogError
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest, size_of
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Log
from replog.rpc.peer import anonymous, handling
from replog.rpc.v1 import log_pb2
from replog.server.authorizer import everything
from replog.server.broker.clients.consume import ConsumerStream
from replog.server.broker.clients.log_service import LogService
from replog.server.broker.clients.quotas import ClientQuotas
from replog.server.broker.replicas.byte_pool import ROOM_WAIT_S, Lease
from replog.server.broker.replicas.fetch_sessions import TOLD_AT_ONCE
from replog.server.broker.replicas.look_ups import LookUps
from replog.server.clock import SystemClock
from replog.topic import TopicPartition
from tests.replog.log.eviction import forget_tails
from tests.replog.server.broker.conftest import batch, eventually, fetch_request


class OneRequest:
    """`replog.rpc.transport.ServerStream`: of a reader that asks once, and then for no more."""

    def __init__(self, request: log_pb2.FetchRequest) -> None:
        self._requests = [request]
        self.records: list[object] = []
        self.idle = asyncio.Event()

    async def receive(self) -> log_pb2.FetchRequest | None:
        if self._requests:
            return self._requests.pop()
        self.idle.set()
        await asyncio.Event().wait()
        return None

    async def send(self, message: WithRecords[log_pb2.FetchResponse]) -> None:
        self.records += message.records


async def test_a_stream_that_waits_for_the_next_request_does_not_keep_the_records_of_its_last_answer(cluster):
    await cluster.begin(1)
    await cluster.produce(TopicPartition("t", 0), batch(bytes(100_000)))
    await eventually(lambda: cluster.log(1, TopicPartition("t", 0)).high_watermark == 1)
    stream = OneRequest(fetch_request(TopicPartition("t", 0)))
    broker = cluster.brokers[1]
    handling(anonymous("127.0.0.1"))
    service = LogService(broker.manager, broker._producer_ids, ClientQuotas({}, SystemClock()), LookUps())
    serving = asyncio.create_task(service.fetch(stream))
    await stream.idle.wait()
    (records,) = stream.records
    stream.records.clear()
    forget_tails()
    assert sys.getrefcount(records) == 2, "somebody besides this test has them"  # the name here, and the argument
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_poll_that_ends_empty_needs_no_room_for_an_answer(cluster):
    await cluster.begin(1)
    tp = TopicPartition("t", 0)
    await cluster.produce(tp, batch(b"x"))
    await eventually(lambda: cluster.log(1, tp).high_watermark == 1)
    manager = cluster.brokers[1].manager
    consumer = ConsumerStream(manager, everything)
    named = {tp: FetchPartition(1, 1 << 20)}
    first = SessionRequest(CONSUMER, NO_BROKER_EPOCH, 0, 1, 1 << 20, named, isolation=Isolation.HIGH_WATERMARK)
    with Lease(manager.sessions.answers) as share, Lease(manager.sessions.answers) as taken:
        await consumer.answer(first, share, goes_on=False)
        manager.sessions.answers.add(manager.sessions.answers.capacity)  # others have it all
        taken.size = manager.sessions.answers.capacity
        began_s = asyncio.get_running_loop().time()
        response = await consumer.answer(first._replace(max_wait_ms=50, named={}), share, goes_on=True)
        assert not response
        assert 0.04 < asyncio.get_running_loop().time() - began_s < ROOM_WAIT_S, "it waits for records, not for room"
    consumer.close()


async def test_all_who_wait_for_a_partition_are_answered_though_few_look_in_one_step(cluster):
    await cluster.begin(1)
    tp = TopicPartition("t", 0)
    manager = cluster.brokers[1].manager
    named = {tp: FetchPartition(0, 1 << 20)}
    request = SessionRequest(CONSUMER, NO_BROKER_EPOCH, 60_000, 1, 1 << 20, named, isolation=Isolation.HIGH_WATERMARK)

    async def read() -> int:
        with (
            contextlib.closing(ConsumerStream(manager, everything)) as consumer,
            Lease(manager.sessions.answers) as share,
        ):
            return size_of(await consumer.answer(request, share, goes_on=False))

    async with asyncio.timeout(10):
        readers = [asyncio.create_task(read()) for _ in range(2 * TOLD_AT_ONCE + 1)]
        await eventually(lambda: len(manager.sessions.watching.get(tp, ())) == len(readers))
        await cluster.produce(tp, batch(b"x"))
        assert all(await asyncio.gather(*readers))


async def test_a_single_call_that_finds_no_room_hears_so_and_not_that_there_is_nothing(cluster):
    await cluster.begin(1)
    tp = TopicPartition("t", 0)
    await cluster.produce(tp, batch(b"x"))
    answers = cluster.brokers[1].manager.sessions.answers
    answers.add(answers.capacity)  # others have it all
    with pytest.raises(ReplogError, match="no room for an answer; try again") as refused:
        await cluster.fetch(tp, 0)
    assert refused.value.retriable
    answers.add(-answers.capacity)
    assert (await cluster.fetch(tp, 0))[1]


async def test_a_request_waits_as_long_as_it_says_from_when_there_was_room(cluster):
    await cluster.begin(1)
    answers, loop = cluster.brokers[1].manager.sessions.answers, asyncio.get_running_loop()
    answers.add(answers.capacity)  # others have it all, for a while
    loop.call_later(0.3, answers.add, -answers.capacity)
    begun_s = loop.time()
    assert (await cluster.fetch(TopicPartition("t", 0), 0, max_wait_ms=400))[1] == b""
    assert loop.time() - begun_s >= 0.65


FETCHES = 20


@pytest.mark.parametrize("method", ["fetch", "fetch_once"])
async def test_a_read_that_is_cancelled_in_mid_wait_leaves_no_session(cluster, method):
    await cluster.begin(1, 1)
    (broker,) = cluster.brokers.values()
    channel = cluster.channel(broker.address)
    place = [log_pb2.FetchPartition(topic="t", partition=0)]
    request = log_pb2.FetchRequest(max_wait_ms=30_000, min_bytes=1, partitions=place)

    async def cancelled() -> None:
        if method == "fetch_once":
            await channel.call(Log[method], request, 0.05)
        else:
            stream = channel.open(Log[method])
            await stream.send(request)
            await stream.receive(0.05)

    gc.collect()
    gc.disable()
    try:
        for _ in range(FETCHES):
            with pytest.raises(ReplogError):
                await cancelled()
        async with asyncio.timeout(20):
            while left := sum(isinstance(each, ConsumerSession) for each in gc.get_objects()):
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"{left} sessions are left of {FETCHES} reads")
    finally:
        gc.enable()
