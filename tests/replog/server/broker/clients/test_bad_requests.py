"""Bad input gets Kafka's error and a clear message, and changes nothing."""

from typing import Any

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.v1 import inspection_pb2, log_pb2
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import TP, batch, fetch_request, produce_request

GOOD = batch(b"one", b"two")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(GOOD[:40], ErrorCode.CORRUPT_MESSAGE, id="half a header"),
        pytest.param(GOOD + GOOD, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(batch(b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, id="oversize"),
    ],
)
async def test_a_bad_batch_is_refused_and_the_log_is_as_before(cluster, records, expected):
    """More of them: tests/replog/log/test_log_append.py."""
    await cluster.begin(1)
    await cluster.produce(TP, batch(b"before"))
    log = cluster.log(1, TP)
    before = (log.log_end_offset, log.size, log.epochs.entries)
    error, offset, message = await cluster.produce(TP, records)
    assert error is expected, message
    assert offset == -1
    assert message
    assert (log.log_end_offset, log.size, log.epochs.entries) == before


async def test_acks_must_be_0_1_or_all(cluster):
    await cluster.begin(1)
    error, _, message = await cluster.produce(TP, GOOD, acks=2)
    assert error is ErrorCode.INVALID_REQUIRED_ACKS
    assert "acks=2" in message
    assert cluster.log(1, TP).log_end_offset == 0


async def test_a_failed_produce_with_acks_0_ends_the_stream(cluster):
    """PR-7: there is no answer to put an error in."""
    await cluster.begin(1)
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    await stream.send(produce_request(TopicPartition("t", 9), GOOD, acks=0))
    with pytest.raises(ReplogError, match="t-9"):
        await stream.receive(5)


async def test_an_unknown_topic_is_named(cluster):
    await cluster.start_broker(1)
    error, _, message = await cluster.produce(TopicPartition("nowhere", 0), GOOD)
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "nowhere-0" in message
    result, _ = await cluster.fetch(TopicPartition("nowhere", 0), 0, channel=cluster.any_channel())
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "nowhere-0" in result.error_message


async def test_an_offset_out_of_range_is_answered_at_once(cluster):
    await cluster.begin(1)
    await cluster.produce(TP, GOOD)
    for offset in (-1, 3, 1 << 40):
        result, data = await cluster.fetch(TP, offset, max_wait_ms=60_000)
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, offset
        assert data == b""
        assert f"offset {offset} of t-0: its log goes from 0 to 2; look up its bounds" in result.error_message
    result, _ = await cluster.fetch(TP, 0)
    assert result.error_message == "", "no error, no text"


async def test_sizes_that_do_not_add_up_are_refused(cluster):
    await cluster.begin(1)
    for size in (len(GOOD) + 1, -len(GOOD)):
        request = produce_request(TP, GOOD)
        request.head.partitions[0].records_size = size
        with pytest.raises(ReplogError, match="add up to") as raised:
            await cluster.to_leader(TP).call(methods.Log["produce_once"], request, 5)
        assert raised.value.code is ErrorCode.INVALID_REQUEST


async def test_a_stale_leader_epoch_is_fenced(cluster):
    await cluster.begin(1)
    for epoch, expected in ((5, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE)):
        partition = log_pb2.ListOffsetsPartition(topic="t", partition=0, timestamp=-1, current_leader_epoch=epoch)
        request = log_pb2.ListOffsetsRequest(partitions=[partition])
        response = await cluster.to_leader(TP).call(methods.Log["list_offsets"], request, 5)
        assert response.partitions[0].error_code == expected
        assert ("leader epoch 5" in response.partitions[0].error_message) == bool(expected)
    asked = log_pb2.OffsetForLeaderEpochPartition(topic="t", partition=0, current_leader_epoch=5)
    request = log_pb2.OffsetsForLeaderEpochRequest(partitions=[asked])
    (result,) = (await cluster.to_leader(TP).call(methods.Log["offsets_for_leader_epoch"], request, 5)).partitions
    assert result.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert "leader epoch 5" in result.error_message


async def test_records_are_deleted_up_to_the_high_watermark_and_no_further(cluster):
    """LG-16, FT-23."""
    await cluster.begin(3)
    await cluster.produce(TP, GOOD)
    refused = "t-0: cannot delete records up to 5; the high watermark is 2"
    for offset, expected in ((5, (ErrorCode.OFFSET_OUT_OF_RANGE, refused, -1)), (-1, (ErrorCode.NONE, "", 2))):
        request = log_pb2.DeleteRecordsRequest(
            partitions=[log_pb2.DeleteRecordsPartition(topic="t", partition=0, offset=offset)], timeout_ms=60_000
        )
        response = await cluster.to_leader(TP).call(methods.Log["delete_records"], request, 10)
        result = response.partitions[0]
        assert (result.error_code, result.error_message, result.low_watermark) == expected
    assert [cluster.log(broker_id, TP).log_start_offset for broker_id in (1, 2, 3)] == [2, 2, 2]


async def test_replicas_can_be_inspected_without_moving_payload(cluster):
    await cluster.begin(1)
    await cluster.produce(TP, GOOD)
    await cluster.produce(TP, batch(b"three"))
    channel = cluster.any_channel()
    described = await channel.call(
        methods.Inspection["describe_replicas"], inspection_pb2.DescribeReplicasRequest(topic="t"), 5
    )
    replica = described.replicas[0]
    assert (replica.is_leader, replica.high_watermark, replica.log_end_offset) == (True, 3, 3)
    assert [(entry.epoch, entry.start_offset) for entry in replica.epochs] == [(0, 0)]
    request = inspection_pb2.ReadBatchHeadersRequest(topic="t", partition=0)
    pieces = [piece async for piece in channel.watch(methods.Inspection["read_batch_headers"], request)]
    assert sum(len(records) for piece in pieces for records in piece.records) == 2 * 61
    whole = inspection_pb2.ReadFileRequest(topic="t", partition=0, segment_base_offset=0, file=inspection_pb2.LOG)
    pieces = [piece async for piece in channel.watch(methods.Inspection["read_file"], whole)]
    on_disk = (cluster.directory / "broker-1" / "t-0" / f"{0:020d}.log").read_bytes()
    assert b"".join(bytes(records) for piece in pieces for records in piece.records) == on_disk
    for bad in (
        inspection_pb2.ReadFileRequest(topic="t", partition=0, segment_base_offset=7),
        inspection_pb2.ReadFileRequest(topic="t", partition=0, file=99),  # type: ignore[arg-type]
        inspection_pb2.ReadFileRequest(topic="t", partition=0, position=-1),
        inspection_pb2.ReadFileRequest(topic="../t", partition=0),
    ):
        with pytest.raises(ReplogError):
            [piece async for piece in channel.watch(methods.Inspection["read_file"], bad)]


async def test_a_produce_has_so_many_batches_and_no_more(cluster):
    """The codec counts other fields, too, and lets a few more pass."""
    await cluster.begin(1)
    batches = [log_pb2.ProducePartition(topic="t", records_size=len(GOOD))] * (MAX_BATCHES_PER_REQUEST + 1)
    produce = WithRecords(log_pb2.ProduceRequest(acks=1, partitions=batches), (GOOD * len(batches),))
    with pytest.raises(ReplogError, match=f"at most {MAX_BATCHES_PER_REQUEST}") as refused:
        await cluster.any_channel().call(methods.Log["produce_once"], produce, 60)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert cluster.log(1, TP).log_end_offset == 0


async def test_a_consumer_of_another_topic_of_that_name_is_told_so_before_anything_else_fe_1(cluster):
    """FE-1: not hosted, then the topic's id, then the leader epoch, then the offset."""
    await cluster.begin(1)
    topic_id = cluster.brokers[1].manager.replicas.hosted[TopicPartition("t", 0)].topic_id

    async def error(topic: str, **partition: Any) -> ErrorCode:
        request = fetch_request(TopicPartition(topic, 0), 99)
        request.partitions[0].MergeFrom(log_pb2.FetchPartition(**partition))
        response = await cluster.any_channel().call(methods.Log["fetch_once"], request, 5)
        return ErrorCode(response.head.partitions[0].error_code)

    other = bytes(16)
    assert await error("u", topic_id=other, current_leader_epoch=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await error("t", topic_id=other, current_leader_epoch=7) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert await error("t", topic_id=topic_id, current_leader_epoch=7) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await error("t", topic_id=topic_id, current_leader_epoch=0) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await error("t") is ErrorCode.OFFSET_OUT_OF_RANGE
