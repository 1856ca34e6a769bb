"""What a produce holds on to while it waits. DeleteRecords across replicas (FT-23), in virtual time."""

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from leader.consumer_session import ConsumerSession
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.rpc import methods
from replog.rpc.transport import Handle, Stream
from replog.rpc.v1 import log_pb2
from replog.server.authorizer import everything
from replog.server.broker.clients.produce import BATCH_BYTES, Produce
from replog.server.broker.clients.produce_stream import MAX_PRODUCES_UNDER_WAY, ProduceStream
from replog.server.broker.clients.quotas import PRODUCED, QuotaThrottle
from replog.server.broker.replicas.byte_pool import BytePool
from tests.leader.replicas import ONE_MIB, record
from tests.replog.log.eviction import forget_tails
from tests.replog.server.broker.conftest import CALL_S, TP, InProcessCluster, batch, eventually, produce_request
from tests.replog.server.broker.replication.test_replica_sessions import LED, Leader, named
from tests.replog.server.broker.virtual_pair import VirtualPair

WAITS = -1, 1000  # acks=all, in milliseconds


async def test_records_are_let_go_when_they_are_appended(tmp_path):
    """A bytearray cannot shrink while there is a view of it: the log's tail has one, no produce that waits."""
    leader = Leader(tmp_path)
    payload = bytearray(record(size=500))
    answers: list[Produce] = []
    list(Produce(leader.manager, *WAITS, answers.append).append_records([(LED, memoryview(payload))], everything))
    assert leader.log(LED).log_end_offset == 6
    assert answers == [], "it waits for its follower"
    forget_tails()
    payload.clear()


async def test_a_batch_that_waits_takes_no_more_than_is_counted(tmp_path):
    leader = Leader(tmp_path)
    one = record()
    list(Produce(leader.manager, *WAITS, lambda _: None).append_records([(LED, one)], everything))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(500):
        list(Produce(leader.manager, *WAITS, lambda _: None).append_records([(LED, one)], everything))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / 500 < BATCH_BYTES


class OneClient:
    """A stream that brings two produces; `happened` gets a word for each message to it."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened

    async def each(self, handle: Handle, _ready: Callable[[], bool]) -> None:
        for _ in range(2):
            list(handle(produce_request(LED, record())) or ())

    def post(self, answer: log_pb2.ProduceResponse) -> None:
        self.happened.append(f"{len(answer.answers)} acknowledged")

    def go_on(self) -> None:
        """There is no more."""


async def test_acknowledgements_share_a_message_and_go_out_before_waiting_fetches_are_answered(tmp_path):
    """Who waits for an acknowledgement does not wait for the reads of others, too."""
    leader, happened = Leader(tmp_path), list[str]()
    leader.ask(named(LED))
    consumer = ConsumerSession(
        leader.manager.sessions,
        leader.manager.replicas,
        lambda: happened.append("read"),
        max_bytes=ONE_MIB,
        max_wait_ms=1000,
    )
    request = SessionRequest(
        CONSUMER, NO_BROKER_EPOCH, 500, 1, ONE_MIB, {LED: FetchPartition(5, ONE_MIB)}, (), Isolation.HIGH_WATERMARK
    )
    consumer.on_request(request)
    assert consumer.ask(request, 0, ONE_MIB) is None
    throttle = QuotaThrottle("client", PRODUCED, {}, leader.manager.context.clock)
    produces = asyncio.create_task(ProduceStream(leader.manager, OneClient(happened), everything, throttle).run())
    await eventually(lambda: leader.log(LED).log_end_offset == 7)
    assert happened == []
    leader.ask(named(LED, 7))
    await produces
    assert happened == ["2 acknowledged", "read"]


PATIENCE_MS = 600_000  # of those that wait for a replica, also on a machine that takes long over the rest


async def leader_without_fetches(cluster: InProcessCluster) -> int:
    """Who leads a partition whose follower is in sync, and fetches no more: acks=all waits."""
    patient = {"replica_lag_time_max_ms": PATIENCE_MS, "request_timeout_ms": PATIENCE_MS}
    await cluster.begin(2, brokers=patient, min_insync_replicas="1")
    leader = cluster.leader(TP)
    await cluster.brokers[3 - leader]._fetchers.close()
    return leader


async def send(stream: Stream, count: int) -> None:
    for number in range(count):
        await stream.send(produce_request(TP, batch(b"x"), timeout_ms=PATIENCE_MS, correlation_id=number))


async def test_who_finds_no_room_is_not_read_from_until_there_is(cluster):
    """Produces that wait for a replica that does not come fill the room, until it is not in sync any more."""
    leader = await leader_without_fetches(cluster)
    log = cluster.log(leader, TP)
    cluster.brokers[leader].manager.waiting_produces = BytePool(20 * BATCH_BYTES)
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    await send(stream, 50)
    await eventually(lambda: log.log_end_offset == 20)
    with pytest.raises(ReplogError, match=r"queued\.max\.request\.bytes") as refused:
        await cluster.produce(TP, batch(b"x"))
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert log.log_end_offset == 20
    await cluster.stop_broker(3 - leader)
    await eventually(lambda: log.log_end_offset == 50)
    stream.cancel()


async def test_whoever_finishes_still_gets_every_answer(cluster):
    await cluster.begin(3)
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    await send(stream, 30)
    await stream.finish()
    answered: list[int] = []
    while (response := await stream.receive(CALL_S)) is not None:
        answered += [answer.partitions[0].base_offset for answer in response.answers]
    assert answered == [*range(30)]


async def test_a_stream_has_a_thousand_produces_under_way_and_no_more(cluster):
    leader = await leader_without_fetches(cluster)
    log = cluster.log(leader, TP)
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    sending = asyncio.create_task(send(stream, MAX_PRODUCES_UNDER_WAY + 10))
    await eventually(lambda: log.log_end_offset == MAX_PRODUCES_UNDER_WAY)
    await asyncio.sleep(0.2)
    assert log.log_end_offset == MAX_PRODUCES_UNDER_WAY
    sending.cancel()
    stream.cancel()
    await asyncio.gather(sending, return_exceptions=True)


@pytest.fixture
def pair(pair):
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[100] * 10)
    return pair


async def delete(pair: VirtualPair, offset: int) -> int:
    async with pair.admin() as admin:
        return (await admin.delete_records({TP: offset}))[TP]


def test_a_replica_that_is_fenced_meanwhile_is_waited_for_no_longer_ft_23(pair):
    """It was out of the ISR before, so that no record of the partition changes by its end."""
    pair.cut()
    pair.produce(100, acks=1)
    pair.until(lambda: pair.isr == {1})
    assert not pair.controller.state.image.brokers[2].fenced
    waiting = pair.loop.spawn(pair.client, delete(pair, 7))
    pair.wait(5)
    assert not waiting.done()
    pair.kill(2)
    pair.until(waiting.done, 2)
    assert waiting.result() == 7


def test_who_waits_in_vain_is_told_what_for(pair):
    pair.network.block("broker-2", "broker-1")
    with pytest.raises(ReplogError, match="t-0: a live replica may still have records before offset 7") as refused:
        pair.run(delete(pair, 7))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
