"""Produce, replicate, fetch: brokers against each other over real gRPC."""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from replog.rpc import methods
from replog.rpc.channel import GrpcChannel
from replog.rpc.codec import WithRecords
from replog.rpc.v1 import controller_pb2, log_pb2

from .conftest import InProcessCluster


def batch(*values: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1000 + offset, key=None, value=value, headers=[])
    return bytes(builder.build())


async def eventually(condition: Callable[[], Awaitable[bool] | bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while True:
            result = condition()
            if await result if isinstance(result, Awaitable) else result:
                return
            await asyncio.sleep(0.02)


async def create_topic(cluster: InProcessCluster, topic: str, partitions: int, replication_factor: int) -> None:
    channel = GrpcChannel(cluster.controller_address)
    request = controller_pb2.CreateTopicRequest(
        topic=topic, partitions=partitions, replication_factor=replication_factor
    )
    await channel.call(methods.Controller["create_topic"], request, 5)
    await channel.close()


async def test_a_record_produced_with_acks_all_is_on_every_replica(cluster: InProcessCluster) -> None:
    for broker_id in (1, 2, 3):
        await cluster.start_broker(broker_id)
    channel = GrpcChannel(cluster.brokers[1].address)

    async def all_unfenced() -> bool:
        metadata = await channel.call(methods.Log["get_metadata"], log_pb2.GetMetadataRequest(), 5)
        return len(metadata.brokers) == 3 and not any(broker.fenced for broker in metadata.brokers)

    await eventually(all_unfenced)
    await create_topic(cluster, "t", 1, 3)
    metadata = log_pb2.GetMetadataResponse()

    async def known() -> bool:
        nonlocal metadata
        metadata = await channel.call(methods.Log["get_metadata"], log_pb2.GetMetadataRequest(topics=["t"]), 5)
        return len(metadata.topics[0].partitions) == 1

    await eventually(known)
    leader = metadata.topics[0].partitions[0].leader
    leader_channel = GrpcChannel(cluster.brokers[leader].address)
    records = batch(b"one", b"two")
    request = log_pb2.ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        partitions=[log_pb2.ProducePartition(topic="t", partition=0, records_size=len(records))],
    )
    response = await leader_channel.call(methods.Log["produce_once"], WithRecords(request, (records,)), 15)
    result = response.answers[0].partitions[0]
    assert (result.error_code, result.base_offset) == (0, 0), result
    logs = [broker._manager.hosted[("t", 0)].log for broker in cluster.brokers.values()]
    assert sum(log.log_end_offset == 2 for log in logs) >= 2
    await eventually(lambda: all(log.high_watermark == 2 for log in logs), 1)
    fetched = await leader_channel.call(
        methods.Log["fetch_once"],
        log_pb2.FetchRequest(
            max_wait_ms=100,
            max_bytes=1 << 20,
            partitions=[log_pb2.FetchPartition(topic="t", partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
        ),
        5,
    )
    assert fetched.head.partitions[0].high_watermark == 2
    assert b"".join(fetched.records)[61:] == records[61:]
    await channel.close()
    await leader_channel.close()
