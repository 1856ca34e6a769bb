"""However much clients name, or send at once, every step of the event loop is short: nobody else waits for them.

Steps are measured in CPU time, which a busy machine stretches least, and without collections of garbage."""

import asyncio
import gc
from collections.abc import Awaitable, Iterator
from time import thread_time
from typing import Any

import pytest

from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST, MAX_PARTITIONS_PER_REQUEST
from replog.rpc.transport import Channel
from replog.rpc.v1 import common_pb2
from replog.rpc.v1 import log_pb2 as pb
from tests.replog.server.broker.conftest import CALL_S, InProcessCluster, batch

LONGEST_S = 0.1  # of CPU: twice what it may take where nobody shares the core
HERE = 2000  # partitions that there are; the others of a request are unknown
ONE = batch(b"x")
NAMED = range(MAX_PARTITIONS_PER_REQUEST)
REQUESTS = {
    "list_offsets": pb.ListOffsetsRequest(
        partitions=[pb.ListOffsetsPartition(topic="t", partition=number, timestamp=-1) for number in NAMED]
    ),
    "offsets_for_leader_epoch": pb.OffsetsForLeaderEpochRequest(
        partitions=[pb.OffsetForLeaderEpochPartition(topic="t", partition=number) for number in NAMED]
    ),
    "delete_records": pb.DeleteRecordsRequest(
        partitions=[pb.DeleteRecordsPartition(topic="t", partition=number, offset=-1) for number in NAMED],
        timeout_ms=1000,
    ),
    "fetch_once": pb.FetchRequest(partitions=[pb.FetchPartition(topic="t", partition=number) for number in NAMED]),
    "get_metadata": pb.GetMetadataRequest(max_bytes=64 << 20),
}


class Steps:
    """Of this thread's loops."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._run = asyncio.Handle._run

    def run(self, handle: asyncio.Handle) -> None:
        begun_s = thread_time()
        self._run(handle)
        self._longest_s = max(self._longest_s, thread_time() - begun_s)

    async def longest_ms(self, work: Awaitable[Any]) -> int:
        """Until `work` is done, and of what that has left to do."""
        await asyncio.sleep(0)  # what prepared it is another step
        self._longest_s = 0.0
        await work
        await asyncio.sleep(0.1)
        return round(1000 * self._longest_s)


@pytest.fixture
def steps(monkeypatch) -> Iterator[Steps]:
    steps = Steps()
    monkeypatch.setattr(asyncio.Handle, "_run", lambda handle: steps.run(handle))
    gc.collect()
    gc.disable()
    yield steps
    gc.enable()


async def _begin(cluster: InProcessCluster, partitions: int = HERE) -> Channel:
    await cluster.begin(1, partitions)
    return cluster.any_channel()


def _produce(batches: int, number: int = 0) -> WithRecords[pb.ProduceRequest]:
    named = [pb.ProducePartition(topic="t", partition=i, records_size=len(ONE)) for i in range(batches)]
    head = pb.ProduceRequest(acks=-1, timeout_ms=30_000, partitions=named, correlation_id=number)
    return WithRecords(head, (ONE * batches,))


async def test_no_step_is_long_whatever_a_request_names(cluster, steps):
    broker = await _begin(cluster)
    took = {}
    for name, request in REQUESTS.items():
        took[name] = await steps.longest_ms(broker.call(methods.Log[name], request, CALL_S))
    request = _produce(MAX_BATCHES_PER_REQUEST)
    took["produce_once"] = await steps.longest_ms(broker.call(methods.Log["produce_once"], request, CALL_S))
    assert max(took.values()) < 1000 * LONGEST_S, took


async def test_no_step_is_long_whatever_a_fetch_session_names_forgets_and_holds(cluster, steps):
    broker = await _begin(cluster)
    stream, took = broker.open(methods.Log["fetch"]), {}

    async def ask(request: pb.FetchRequest) -> None:
        await stream.send(request)
        assert await stream.receive(CALL_S) is not None

    for topic in ("t", "u", "v"):
        named = [pb.FetchPartition(topic=topic, partition=number) for number in NAMED]
        took[topic] = await steps.longest_ms(ask(pb.FetchRequest(partitions=named, goes_on=True)))
    took["goes on"] = await steps.longest_ms(ask(pb.FetchRequest(goes_on=True)))
    other = pb.FetchRequest(goes_on=True, isolation_level=pb.READ_COMMITTED)
    took["reads what is committed"] = await steps.longest_ms(ask(other))
    forgotten = [common_pb2.ForgottenPartition(topic="u", partition=number) for number in NAMED]
    took["forgets"] = await steps.longest_ms(ask(pb.FetchRequest(goes_on=True, forgotten=forgotten)))
    took["others alone"] = await steps.longest_ms(ask(REQUESTS["fetch_once"]))
    stream.cancel()
    took["ends"] = await steps.longest_ms(asyncio.sleep(0))
    assert max(took.values()) < 1000 * LONGEST_S, took


@pytest.mark.parametrize(("messages", "batches"), [(1000, 1), (50, 100), (40, MAX_BATCHES_PER_REQUEST)])
async def test_no_step_is_long_however_many_produces_come_at_once_and_they_keep_their_order(
    cluster, steps, messages, batches
):
    broker = await _begin(cluster, batches)
    stream = broker.open(methods.Log["produce"])
    answered: list[tuple[int, int]] = []

    def take(response: pb.ProduceResponse) -> None:
        answered.extend((answer.correlation_id, answer.partitions[0].base_offset) for answer in response.answers)

    for number in range(messages):
        stream.post(_produce(batches, number))
    reading = asyncio.create_task(stream.each(take))
    await stream.finish()
    took = await steps.longest_ms(asyncio.wait_for(reading, CALL_S))
    assert answered == [(number, number) for number in range(messages)]
    assert took < 1000 * LONGEST_S


async def test_no_step_is_long_however_many_fetches_come_at_once(cluster, steps):
    broker = await _begin(cluster, 1)
    stream = broker.open(methods.Log["fetch"])

    async def ask(times: int) -> None:
        for number in range(times):
            await stream.send(pb.FetchRequest(correlation_id=number, goes_on=True))
        for number in range(times):
            assert (await stream.receive(CALL_S)).head.correlation_id == number

    await ask(1)
    took = await steps.longest_ms(ask(5000))
    stream.cancel()
    assert took < 1000 * LONGEST_S
