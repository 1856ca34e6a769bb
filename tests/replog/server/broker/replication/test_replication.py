"""Produce, replicate, fail over, come back: brokers against each other over real gRPC."""

import asyncio

from replog.errors import ErrorCode
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.topic import TopicPartition
from tests.replog.server.broker.broken import break_files
from tests.replog.server.broker.conftest import CALL_S, batch, eventually

TP = TopicPartition("t", 0)


async def test_a_record_produced_with_acks_all_is_on_every_replica(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    records = batch(b"one", b"two")
    assert await cluster.produce(TP, records) == (ErrorCode.NONE, 0, "")
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    assert [log.log_end_offset for log in logs] == [2, 2, 2]
    assert cluster.log(cluster.leader(TP), TP).high_watermark == 2
    result, data = await cluster.fetch(TP, 0)
    assert result.high_watermark == 2
    assert data[61:] == records[61:]


async def test_idle_followers_hear_of_the_high_watermark_long_before_their_fetch_times_out(cluster):
    """Divergence 6, where HW-10 would leave them up to `replica.fetch.wait.max.ms` behind."""
    for broker_id in (1, 2, 3):
        await cluster.start_broker(broker_id, replica_fetch_wait_max_ms=60_000, replica_lag_time_max_ms=120_000)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"one"))
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(log.high_watermark == 1 for log in logs), 30, lambda: [log.high_watermark for log in logs]
    )


async def test_a_crashed_leader_is_replaced_and_comes_back_as_a_follower(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"one"))
    old = cluster.leader(TP)
    # a tail that no follower will ever fetch: appended once the others are cut off from it
    cluster.log(old, TP).append_as_leader(batch(b"never replicated"), leader_epoch=0, now_ms=0)
    await cluster.crash_broker(old)
    await cluster.led(TP)
    assert await cluster.produce(TP, batch(b"two")) == (ErrorCode.NONE, 1, "")
    await cluster.start_broker(old)
    await eventually(lambda: cluster.isr(TP) == {1, 2, 3}, what=lambda: cluster.isr(TP))
    await eventually(lambda: cluster.log(old, TP).high_watermark == 2)
    directories = [cluster.directory / f"broker-{broker_id}" / "t-0" for broker_id in (1, 2, 3)]
    await cluster.stop()
    for name in (f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex"):
        contents = [(directory / name).read_bytes() for directory in directories]
        assert contents[0] == contents[1] == contents[2], name
    await cluster.start_controller()


async def test_records_are_not_acknowledged_below_min_insync_replicas(cluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    await cluster.produce(TP, batch(b"one"))
    await cluster.crash_broker(next(iter({1, 2} - {cluster.leader(TP)})))
    await eventually(lambda: len(cluster.isr(TP)) == 1)
    error, offset, message = await cluster.produce(TP, batch(b"two"))
    assert (error, offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert "fewer than the 2" in message
    assert cluster.log(cluster.leader(TP), TP).log_end_offset == 1


async def test_a_waiting_produce_times_out_while_a_replica_is_silent(cluster):
    """R-W-P4: appended, not known to be committed, and the answer says so."""
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    follower = next(iter({1, 2} - {cluster.leader(TP)}))
    await eventually(lambda: cluster.brokers[follower]._fetchers._fetchers)  # it has heard of the topic, too
    await cluster.brokers[follower]._fetchers.close()
    error, _, message = await cluster.produce(TP, batch(b"two"), timeout_ms=300)
    assert error is ErrorCode.REQUEST_TIMED_OUT
    assert "it may be there" in message
    assert cluster.log(cluster.leader(TP), TP).log_end_offset == 1


async def test_after_an_orderly_stop_nothing_is_recovered_and_everything_is_there(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"one", b"two"))
    for broker_id in (1, 2, 3):
        await cluster.stop_broker(broker_id)
        assert (cluster.directory / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()
    await cluster.start_brokers(1, 2, 3)
    await cluster.led(TP)
    result, _ = await cluster.fetch(TP, 0, max_wait_ms=30_000)
    assert (result.error_code, result.records_size > 0) == (0, True), result


async def test_many_produces_on_one_stream_are_answered_by_their_ids(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    records = batch(b"x" * 100)
    for correlation_id in range(200):
        head = log_pb2.ProduceRequest(
            correlation_id=correlation_id,
            acks=-1,
            timeout_ms=60_000,
            partitions=[log_pb2.ProducePartition(topic="t", partition=0, records_size=len(records))],
        )
        await stream.send(WithRecords(head, (records,)))
    offsets: dict[int, int] = {}
    messages = 0
    while len(offsets) < 200:
        response = await stream.receive(60)
        assert response is not None
        messages += 1
        for answer in response.answers:
            offsets[answer.correlation_id] = answer.partitions[0].base_offset
    stream.cancel()
    assert offsets == {number: number for number in range(200)}
    assert messages < 200, "answers that were ready together were not sent together"


async def test_a_deleted_topic_is_gone_from_every_broker_and_its_name_is_free(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"of the first topic"))
    request = controller_pb2.DeleteTopicRequest(topic="t")
    await cluster.channel(cluster.controller_address).call(methods.Controller["delete_topic"], request, CALL_S)
    await eventually(lambda: all(TP not in broker.manager.hosted for broker in cluster.brokers.values()))
    await cluster.create_topic("t")
    assert await cluster.produce(TP, batch(b"of the second")) == (ErrorCode.NONE, 0, "")
    _, data = await cluster.fetch(TP, 0)
    assert b"of the second" in data


async def test_a_failing_disk_stops_the_broker_and_the_others_carry_on(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    await cluster.produce(TP, batch(b"one"))
    broken = cluster.leader(TP)
    break_files(cluster.log(broken, TP))
    error, _, _ = await cluster.produce(TP, batch(b"two"))
    assert error is ErrorCode.KAFKA_STORAGE_ERROR
    await eventually(lambda: cluster.brokers[broken].failed)
    await cluster.crash_broker(broken)
    await cluster.led(TP)
    assert await cluster.produce(TP, batch(b"two")) == (ErrorCode.NONE, 1, "")


async def test_a_fetch_waits_for_data_and_is_answered_when_it_is_committed(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    fetching = asyncio.create_task(cluster.fetch(TP, 0, max_wait_ms=50_000))
    await asyncio.sleep(0.1)
    assert not fetching.done()
    await cluster.produce(TP, batch(b"one"))
    async with asyncio.timeout(30):
        result, data = await fetching
    assert result.high_watermark == 1
    assert b"one" in data
