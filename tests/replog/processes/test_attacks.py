"""What one client may do to a broker by asking for much and taking nothing: memory stays bounded, producers go on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from benchmarks.attackers import (
    READERS_BUDGET,
    SLACK,
    UNREAD_BUDGET,
    VICTIM,
    UnfinishedMessage,
    bulk_request,
    fetch_streams,
    file_readers,
    look_up,
    parked_fetches,
    prepare,
    single_fetches,
    unfinished_messages,
)
from benchmarks.harness import peak_bytes, reset_peak, rss_bytes
from replog.client import Admin, Producer
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.grpcio.channel import GrpcChannel
from replog.rpc.limits import MAX_REQUEST_BYTES, MIB
from replog.rpc.methods import Log
from replog.rpc.transport import Stream
from replog.rpc.transports import client_tls

pytestmark = pytest.mark.processes

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def broker(cluster: LocalCluster) -> str:
    """The address of the broker that is attacked: it has the topics that attackers ask for."""
    asyncio.run(_prepare(cluster))
    return cluster.state.broker(VICTIM).address


async def _prepare(cluster: LocalCluster) -> None:
    await prepare(cluster.bootstrap, expanded=100 * MIB)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("steady", partitions=3, replication_factor=3)


class Victim:
    """A broker under attack: how much it grew, and whether producers went on meanwhile."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = rss_bytes(pid)
        self.acknowledged = 0
        reset_peak(pid)

    def kept_within(self, budget: int) -> None:
        grown = peak_bytes(self._pid) - self._before
        assert grown < budget, f"it grew by {grown / MIB:.0f} MiB"

    async def outlast(self, acknowledgements: int) -> None:
        """Until a steady producer has got so many more."""
        wanted = self.acknowledged + acknowledgements
        async with asyncio.timeout(DEADLINE_S):
            while self.acknowledged < wanted:
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def attacked(cluster: LocalCluster, pid: int | None = None) -> AsyncIterator[Victim]:
    """With a producer beside it, to all brokers, each of whose records must be acknowledged."""
    pid = pid or cluster.state.broker(VICTIM).pid
    assert pid is not None
    victim = Victim(pid)

    async def produce(producer: Producer) -> None:
        while True:
            sent = [await producer.send("steady", b"x" * 100, partition=partition) for partition in range(3)]
            for delivery in sent:
                await delivery
            victim.acknowledged += 1
            await asyncio.sleep(0.02)

    async with Producer(cluster.bootstrap) as producer:
        producing = asyncio.create_task(produce(producer))
        try:
            await victim.outlast(5)
            yield victim
            assert not producing.done()
        finally:
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)


@pytest.mark.parametrize(("attack", "streams"), [(fetch_streams, 100), (parked_fetches, 64), (single_fetches, 24)])
async def test_fetches_that_nobody_reads(cluster, broker, attack, streams):
    """Parked ones are all on one stream, and wake together."""
    async with attacked(cluster) as victim, attack(broker, streams):
        await victim.outlast(100)
        victim.kept_within(UNREAD_BUDGET)


async def test_messages_that_never_end(cluster, broker):
    """Each costs what a message may cost, and no more."""
    async with attacked(cluster) as victim, unfinished_messages(broker, 5) as messages:
        await victim.outlast(100)
        assert not any(message.refused for message in messages)
        victim.kept_within(5 * MAX_REQUEST_BYTES + SLACK)


async def test_a_message_larger_than_any_request_is_refused_when_it_begins(cluster, broker):
    """Not when it ends, which it never does."""
    message = UnfinishedMessage(broker, Log["produce"].path, 20 * MAX_REQUEST_BYTES)
    async with attacked(cluster) as victim, asyncio.timeout(DEADLINE_S), message:
        await message.send_all_but_the_end()
        assert message.refused
        victim.kept_within(SLACK)


async def test_file_readers_that_do_not_read(cluster, broker):
    async with attacked(cluster) as victim, file_readers(broker, 600) as streams:
        await victim.outlast(100)
        victim.kept_within(READERS_BUDGET)
        with pytest.raises(ReplogError, match="THROTTLING_QUOTA_EXCEEDED: "):
            await _last_word(streams[-1])


async def _last_word(stream: Stream) -> None:
    while await stream.receive(DEADLINE_S) is not None:
        pass


async def test_look_ups_by_time_in_a_batch_that_expands_to_a_hundred_megabytes(cluster, broker):
    async with attacked(cluster) as victim:
        asked = [look_up(broker, 100), *(look_up(broker, 1) for _ in range(50))]
        answers = [result for results in await asyncio.gather(*asked) for result in results]
        assert {result.error_code for result in answers} <= {0, int(ErrorCode.REQUEST_TIMED_OUT)}
        assert {result.offset for result in answers} <= {0, -1}, "its first record stands for it"
        await victim.outlast(20)
        victim.kept_within(SLACK)


def test_readers_are_served_again_when_those_that_did_not_read_have_gone(broker):
    async def read() -> int:
        channel = GrpcChannel(broker, client_tls())
        began = time.monotonic()
        while time.monotonic() - began < DEADLINE_S:
            answer = await channel.call(Log["fetch_once"], bulk_request(), DEADLINE_S)
            if size := sum(len(piece) for piece in answer.records):
                await channel.close()
                return size
        raise AssertionError("no room again")

    assert asyncio.run(read()) >= 64 << 10
