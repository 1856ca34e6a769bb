"""What one client may do to a broker by asking for much and taking nothing: memory stays bounded, producers go on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.broker.inspection_service import PIECE_BYTES
from cluster.local.supervisor import LocalCluster
from replog.client import Admin, Producer
from replog.errors import ErrorCode, ReplogError
from replog.rpc.channel import GrpcChannel
from replog.rpc.codec import WithRecords
from replog.rpc.limits import LIMITS, MAX_STREAMS
from replog.rpc.methods import Controller, Inspection, Log
from replog.rpc.transport import Stream
from replog.rpc.v1 import inspection_pb2, log_pb2
from tests.cluster.broker.test_look_ups import packed

pytestmark = pytest.mark.processes

MIB = 1 << 20
ANSWERS = 64 * MIB  # queued.max.response.bytes
COPIES = 3  # of an answer on its way: as read, as one message, and in gRPC's buffers
SLACK = 96 * MIB  # caches, fragments, and what the steady producer needs
DEADLINE_S = 120.0
STORED = 60 * MIB


@pytest.fixture(scope="module")
def bulk(cluster: LocalCluster) -> str:
    """A topic whose one partition has more than any answer may hold."""
    return asyncio.run(_fill(cluster))


async def _fill(cluster: LocalCluster) -> str:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("bulk", partitions=1, replication_factor=1)
        await admin.create_topic("steady", partitions=3, replication_factor=3)
    async with Producer(cluster.bootstrap) as producer:
        value = bytes(250_000)
        for _ in range(STORED // len(value)):
            await producer.send("bulk", value)
    return await _leader(cluster, "bulk")


async def _leader(cluster: LocalCluster, topic: str) -> str:
    channel = GrpcChannel(cluster.state.brokers[0].address)
    request = log_pb2.GetMetadataRequest(topics=[topic])
    answer = await channel.call(Log["get_metadata"], request, DEADLINE_S)
    await channel.close()
    addresses = {broker.broker_id: broker.address for broker in answer.brokers}
    return addresses[answer.topics[0].partitions[0].leader]


def _memory(pid: int, name: str) -> int:
    """VmRSS or VmHWM, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"{name} of {pid} is not told")


class Victim:
    """A broker under attack: how much it grew, and whether producers went on meanwhile."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self._pid = pid
        self._before = _memory(pid, "VmRSS")
        self.acknowledged = 0
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from now on

    @property
    def grown(self) -> int:
        return _memory(self._pid, "VmHWM") - self._before

    async def outlast(self, acknowledgements: int) -> None:
        """Until a steady producer has got so many more."""
        wanted = self.acknowledged + acknowledgements
        async with asyncio.timeout(DEADLINE_S):
            while self.acknowledged < wanted:
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def attacked(cluster: LocalCluster, address: str) -> AsyncIterator[Victim]:
    """With a producer beside it, to all brokers, each of whose records must be acknowledged."""
    pid = next(broker.pid for broker in cluster.state.brokers if broker.address == address)
    assert pid is not None
    victim = Victim(address, pid)

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


def _fetch(max_wait_ms: int = 0, min_bytes: int = 1) -> log_pb2.FetchRequest:
    partition = log_pb2.FetchPartition(topic="bulk", partition=0, fetch_offset=0, partition_max_bytes=STORED)
    return log_pb2.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=STORED, partitions=[partition])


async def _open(address: str, count: int) -> list[tuple[GrpcChannel, Stream]]:
    """Fetch streams, each on a connection of its own."""
    channels = [GrpcChannel(address) for _ in range(count)]
    return [(channel, channel.open(Log["fetch"])) for channel in channels]


async def _close(streams: list[tuple[GrpcChannel, Stream]]) -> None:
    for channel, stream in streams:
        stream.cancel()
        await channel.close()


async def test_fetch_streams_that_read_nothing(cluster: LocalCluster, bulk: str) -> None:
    async with attacked(cluster, bulk) as victim:
        streams = await _open(bulk, 100)
        for _, stream in streams:
            for _ in range(5):
                await stream.send(_fetch())
        await victim.outlast(100)
        assert victim.grown < COPIES * ANSWERS + SLACK, f"{victim.grown >> 20} MiB"
        await _close(streams)


async def test_many_fetches_that_are_parked_on_one_stream_and_wake_together(cluster: LocalCluster, bulk: str) -> None:
    async with attacked(cluster, bulk) as victim:
        streams = await _open(bulk, 1)
        for _ in range(64):
            await streams[0][1].send(_fetch(max_wait_ms=2000, min_bytes=STORED * 2))
        await victim.outlast(100)
        assert victim.grown < COPIES * ANSWERS + SLACK, f"{victim.grown >> 20} MiB"
        await _close(streams)


async def test_single_fetches_that_nobody_reads(cluster: LocalCluster, bulk: str) -> None:
    async with attacked(cluster, bulk) as victim:
        channels = [GrpcChannel(bulk) for _ in range(24)]
        streams = [channel.open(Log["fetch_once"]) for channel in channels]
        for stream in streams:
            await stream.send(_fetch())
        await victim.outlast(100)
        assert victim.grown < COPIES * ANSWERS + SLACK, f"{victim.grown >> 20} MiB"
        await _close(list(zip(channels, streams, strict=True)))


async def test_file_readers_that_do_not_read(cluster: LocalCluster, bulk: str) -> None:
    async with attacked(cluster, bulk) as victim:
        channels = [GrpcChannel(bulk) for _ in range(3)]
        streams = [(channel, channel.open(Inspection["read_file"])) for channel in channels for _ in range(200)]
        for _, stream in streams:
            with contextlib.suppress(ReplogError):  # it may have been refused by now
                await stream.send(inspection_pb2.ReadFileRequest(topic="bulk"))
        await victim.outlast(100)
        assert victim.grown < LIMITS["Inspection/ReadFile"].calls * COPIES * PIECE_BYTES + SLACK, (
            f"{victim.grown >> 20} MiB"
        )
        with pytest.raises(ReplogError) as refused:
            await _last_word(streams[-1][1])
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await _close(streams)


async def _last_word(stream: Stream) -> None:
    while await stream.receive(DEADLINE_S) is not None:
        pass


async def test_requests_of_millions_of_empty_partitions(cluster: LocalCluster, bulk: str) -> None:
    async with attacked(cluster, bulk) as victim:
        channel = GrpcChannel(bulk)
        for name, field in (("produce", b"\x22\x00"), ("fetch", b"\x32\x00")):
            for _ in range(10):
                stream = channel.open(replace(Log[name], encode_request=lambda data: data))
                with contextlib.suppress(ReplogError):
                    await stream.send(field * (2 << 20))
                with pytest.raises(ReplogError, match="names too much"):
                    await stream.receive(DEADLINE_S)
        await victim.outlast(20)
        assert victim.grown < SLACK, f"{victim.grown >> 20} MiB"
        await channel.close()


async def test_look_ups_by_time_in_a_batch_that_expands_to_a_hundred_megabytes(
    cluster: LocalCluster, bulk: str
) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("packed", partitions=1, replication_factor=1)
    address = await _leader(cluster, "packed")
    records = await asyncio.to_thread(packed, 100 << 20)
    async with attacked(cluster, address) as victim:
        channel = GrpcChannel(address)
        partition = log_pb2.ProducePartition(topic="packed", records_size=len(records))
        head = log_pb2.ProduceRequest(acks=-1, timeout_ms=30_000, partitions=[partition])
        stored = await channel.call(Log["produce_once"], WithRecords(head, (records,)), DEADLINE_S)
        assert not stored.answers[0].partitions[0].error_code
        look_up = log_pb2.ListOffsetsPartition(topic="packed", timestamp=1001)
        asked = log_pb2.ListOffsetsRequest(partitions=[look_up])
        found = await asyncio.gather(*(channel.call(Log["list_offsets"], asked, DEADLINE_S) for _ in range(100)))
        assert {answer.partitions[0].error_code for answer in found} <= {0, int(ErrorCode.REQUEST_TIMED_OUT)}
        assert {answer.partitions[0].offset for answer in found} <= {0, -1}, "its first record stands for it"
        await victim.outlast(20)
        assert victim.grown < SLACK, f"{victim.grown >> 20} MiB"
        await channel.close()


async def test_idle_streams_at_the_controller(cluster: LocalCluster, bulk: str) -> None:
    watch = Controller["watch_metadata"]
    controller = cluster.state.controller
    async with attacked(cluster, bulk) as victim:
        before = await _brokers(bulk)
        channels = [GrpcChannel(controller.address) for _ in range(1 + watch.limit.calls // MAX_STREAMS)]
        streams = []
        for number in range(watch.limit.calls + 500):
            streams.append((channels[number % len(channels)], channels[number % len(channels)].open(watch)))
            if number % 100 == 0:
                await asyncio.sleep(0.05)
        await victim.outlast(100)
        assert await _brokers(bulk) == before
        await _close(streams)


async def _brokers(address: str) -> list[tuple[int, bool]]:
    channel = GrpcChannel(address)
    answer = await channel.call(Log["get_metadata"], log_pb2.GetMetadataRequest(), DEADLINE_S)
    await channel.close()
    return [(broker.broker_id, broker.fenced) for broker in answer.brokers]


def test_readers_are_served_again_when_those_that_did_not_read_have_gone(cluster: LocalCluster, bulk: str) -> None:
    async def read() -> int:
        channel = GrpcChannel(bulk)
        began = time.monotonic()
        while time.monotonic() - began < DEADLINE_S:
            answer = await channel.call(Log["fetch_once"], _fetch(), DEADLINE_S)
            if size := sum(len(piece) for piece in answer.records):
                await channel.close()
                return size
        raise AssertionError("no room again")

    assert asyncio.run(read()) >= 64 << 10
