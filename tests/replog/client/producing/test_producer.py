"""The producer against real brokers: order, retries, failover, errors."""

import asyncio
import itertools
import time

import pytest

from replog.client import Admin, Consumer, DeliveryFailed, Producer
from replog.client.producing.partitioner import partition_for_key
from replog.errors import ErrorCode, ReplogError
from tests.replog.client.conftest import TP, bootstrap, read
from tests.replog.server.broker.conftest import eventually


async def read_all(address: str) -> list[bytes | None]:
    """Everything below the high watermark, in offset order."""
    async with Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        end = (await consumer.end_offsets([TP]))[TP]
        return [record.value for record in await read(consumer, end)]


async def test_records_without_key_fill_one_batch_then_move_to_another_partition(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=3, replication_factor=1)
    async with Producer(bootstrap(cluster), linger_ms=20, batch_size=10_000) as producer:
        deliveries = await producer.send_many("t", [b"x" * 100] * 1000)
        placed = [(await delivery).partition for delivery in deliveries]
    moves = sum(a != b for a, b in itertools.pairwise(placed))
    assert set(placed) == {0, 1, 2}
    assert moves < 20, placed


@pytest.mark.parametrize("acks", ["all", 1, 0])
async def test_every_level_of_acks_delivers_in_order(one_broker, acks):
    sent = [b"%d" % i for i in range(300)]
    async with Producer(one_broker, acks=acks) as producer:  # type: ignore[arg-type]
        deliveries = await producer.send_many("t", sent)
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == ([-1] * 300 if acks == 0 else list(range(300)))
    deadline = time.monotonic() + 60
    while await read_all(one_broker) != sent:
        assert time.monotonic() < deadline, "acks=0 records did not arrive"
        await asyncio.sleep(0.05)


async def test_records_wait_for_enough_replicas_and_then_get_through(cluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    follower = ({1, 2} - {cluster.leader(TP)}).pop()
    await cluster.stop_broker(follower)
    async with Producer(bootstrap(cluster)) as producer:
        delivery = await producer.send("t", b"patient")
        await asyncio.sleep(0.5)
        assert not delivery.done()
        await cluster.start_broker(follower)
        assert (await asyncio.wait_for(delivery, 60)).offset == 0


async def test_a_record_that_stays_undelivered_fails_at_its_deadline_with_the_reason_and_is_counted(cluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2)
    await cluster.stop_broker(({1, 2} - {cluster.leader(TP)}).pop())
    async with Producer(bootstrap(cluster), delivery_timeout_ms=2500) as producer:
        with pytest.raises(DeliveryFailed, match=r"not delivered in 2\.5 s; last error: NOT_ENOUGH_REPLICAS") as failed:
            await (await producer.send("t", b"x"))
        counts = producer.metrics()
    assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert (counts["record-error-total"], counts["record-send-total"]) == (1, 0)
    assert counts["record-retry-total"] >= 1


async def test_a_record_for_a_partition_without_a_leader_fails_with_that_reason_which_is_logged_before(cluster, caplog):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=1)
    await cluster.crash_broker(cluster.leader(TP))
    await eventually(lambda: cluster.leader(TP) == -1)
    async with Producer(bootstrap(cluster), delivery_timeout_ms=3000) as producer:
        with pytest.raises(DeliveryFailed, match=r"not delivered in 3 s; it has no leader"):
            await (await producer.send("t", b"x"))
    waits = [line.partition("; last error")[0] for line in caplog.messages if "records wait" in line]
    assert waits == ["t-0: records wait, 3 s at most; it has no leader: none of its replicas that are in sync is up"]


async def test_a_cluster_that_is_away_fails_the_record_as_possibly_appended(cluster, one_broker):
    async with Producer(one_broker, delivery_timeout_ms=2500) as producer:
        await (await producer.send("t", b"before"))
        await cluster.crash_broker(1)
        with pytest.raises(DeliveryFailed) as failed:
            await (await producer.send("t", b"after"))
    assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert failed.value.may_be_appended


async def test_a_refused_batch_fails_at_once_and_the_others_of_the_request_go_through(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1, max_message_bytes="1000")
    async with Producer(bootstrap(cluster), linger_ms=50, batch_size=500) as producer:
        deliveries = await producer.send_many("t", [b"a" * 400, b"b" * 5000, b"c" * 400])
        assert (await deliveries[0]).offset == 0
        with pytest.raises(DeliveryFailed) as refused:
            await deliveries[1]
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert not refused.value.may_be_appended
        assert (await deliveries[2]).offset == 1


@pytest.mark.parametrize("limit", [{"max_message_bytes": "1000"}, {"segment_bytes": "1024"}])
async def test_batches_are_no_larger_than_their_topic_takes(cluster, limit):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1, **limit)
    async with Producer(bootstrap(cluster), linger_ms=20) as producer:
        deliveries = await producer.send_many("t", [b"x" * 100] * 100)
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))


@pytest.mark.parametrize("limit", ["max.message.bytes", "segment.bytes"])
async def test_batches_fit_a_limit_that_was_lowered_as_soon_as_one_was_refused(one_broker, limit):
    async with Producer(one_broker, linger_ms=5, delivery_timeout_ms=60_000) as producer:
        await (await producer.send("t", b"first"))
        async with Admin(one_broker, timeout_ms=60_000) as admin:
            await admin.alter_topic_configs("t", {limit: "2000"})
        kept = 1
        async with asyncio.timeout(60):
            while not (refused := await _refusals(producer)):  # the broker has not heard of it yet
                kept += 100
        assert len(refused) == 100
        for failure in refused:
            assert failure.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
            assert not failure.may_be_appended
        await eventually(lambda: next(iter(producer._accumulator.topics["t"])).batch_size <= 2000)
        stored = [await delivery for delivery in await producer.send_many("t", [b"x" * 100] * 100)]
        assert [metadata.offset for metadata in stored] == list(range(kept, kept + 100))


async def _refusals(producer: Producer) -> list[DeliveryFailed]:
    """Of a hundred records that go together."""
    deliveries = await producer.send_many("t", [b"x" * 100] * 100)
    outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
    return [outcome for outcome in outcomes if isinstance(outcome, DeliveryFailed)]


async def test_bad_records_are_refused_before_they_are_sent(one_broker):
    async with Producer(one_broker, max_request_bytes=10_000, max_block_ms=300) as producer:
        for arguments, code in (
            ({"value": b"x" * 10_000}, ErrorCode.MESSAGE_TOO_LARGE),
            ({"value": b"", "timestamp_ms": -5}, ErrorCode.INVALID_TIMESTAMP),
            ({"value": b"", "partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"value": b"", "topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"value": b"", "topic": "no/name"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ):
            with pytest.raises(ReplogError) as refused:
                await producer.send(**{"topic": "t", **arguments})  # type: ignore[arg-type]
            assert refused.value.code is code, arguments
        with pytest.raises(TypeError):
            await producer.send("t", "text")  # type: ignore[arg-type]
        assert (await (await producer.send("t", b"good"))).offset == 0


async def test_a_record_larger_than_the_buffer_is_refused_by_the_name_of_that_setting(one_broker):
    async with Producer(one_broker, buffer_memory=20_000) as producer:
        with pytest.raises(ReplogError, match=r"MESSAGE_TOO_LARGE: .* more than buffer_memory=20000; raise that"):
            await producer.send("t", b"x" * 20_000)


async def test_a_full_buffer_holds_the_sender_back_until_records_are_delivered(one_broker):
    async with Producer(one_broker, buffer_memory=20_000) as producer:
        deliveries = await producer.send_many("t", [b"x" * 1000] * 500)
        assert sum(not delivery.done() for delivery in deliveries) <= 20
        assert [(await delivery).offset for delivery in deliveries] == list(range(500))


async def test_many_values_are_sent_up_to_the_first_that_is_too_large(one_broker):
    async with Producer(one_broker, max_request_bytes=10_000, linger_ms=60_000) as producer:
        words = (
            r"a record for 't' takes up to 10082 bytes, counted before compression, more than max_request_bytes=10000"
        )
        with pytest.raises(ReplogError, match=words) as refused:
            await producer.send_many("t", [b"x" * 1000] * 25 + [b"x" * 10_000, b"never sent"])
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        following = await producer.send("t", b"next")
        await producer.flush()
        assert (await following).offset == 25


async def test_a_sender_that_waits_for_room_goes_on_in_the_batch_that_is_open(cluster):
    """Records without a key stay in one partition until its batch is full, however often they wait."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=3, replication_factor=1)
    async with Producer(bootstrap(cluster), buffer_memory=20_000, linger_ms=60_000) as producer:
        first = await producer.send("t", b"x" * 1000)
        held = producer._accumulator.topics["t"][first.partition]
        held.retrying = True
        await producer.send_many("t", [b"x" * 1000] * 18, partition=(first.partition + 1) % 3)
        second = await producer.send("t", b"x" * 1000)
        held.retrying = False
        assert second.partition == first.partition


async def test_a_flush_waits_for_everything_sent_and_nothing_lingers_in_it(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    async with Producer(bootstrap(cluster), linger_ms=60_000) as producer:
        deliveries = [await producer.send("t", b"x", partition=i % 2) for i in range(10)]
        await asyncio.sleep(0.05)
        assert not any(delivery.done() for delivery in deliveries)
        await asyncio.wait_for(producer.flush(), 40)
        assert all(delivery.done() for delivery in deliveries)


async def test_a_closed_producer_has_delivered_and_takes_nothing_more(one_broker):
    producer = Producer(one_broker, linger_ms=1000)
    delivery = await producer.send("t", b"last words")
    await producer.close()
    await producer.close()
    assert delivery.result().offset == 0
    with pytest.raises(ReplogError, match="the producer is closed"):
        await producer.send("t", b"x")


async def test_a_topic_deleted_under_the_producer_fails_its_records_in_time(one_broker):
    async with Producer(one_broker, delivery_timeout_ms=2500) as producer, Admin(one_broker) as admin:
        await (await producer.send("t", b"x"))
        await admin.delete_topic("t")
        with pytest.raises(DeliveryFailed):
            await (await producer.send("t", b"y"))


async def test_a_time_in_microseconds_is_refused_at_once_and_the_producer_goes_on(one_broker):
    async with Producer(one_broker) as producer:
        micros = time.time_ns() // 1000
        with pytest.raises(DeliveryFailed, match=rf"t-0: .*{micros}.*message\.timestamp\.after\.max\.ms") as caught:
            await (await producer.send("t", b"x", timestamp_ms=micros))
        assert (caught.value.code, caught.value.may_be_appended) == (ErrorCode.INVALID_TIMESTAMP, False)
        assert (await (await producer.send("t", b"y"))).offset == 0
        assert producer.metrics()["record-retry-total"] == 0


async def test_a_topic_made_again_with_fewer_partitions_gets_each_record_in_order_and_once(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=3, replication_factor=1)
    async with Producer(bootstrap(cluster)) as producer, Admin(bootstrap(cluster)) as admin:
        for partition in range(3):
            await producer.send_and_wait("t", b"old", partition=partition)
        epoch = producer._identity.current.epoch  # type: ignore[union-attr]
        await admin.delete_topic("t")
        await cluster.create_topic("t", replication_factor=1)
        await producer._metadata.refresh()
        producer._sender._stale.set()
        await eventually(lambda: len(producer._accumulator.topics["t"]) == 1)
        values = [b"%d" % number for number in range(50)]
        for delivery in [await producer.send("t", value, key=value) for value in values]:
            await delivery
        assert producer._identity.current.epoch == epoch + 1  # type: ignore[union-attr]
    assert await read_all(bootstrap(cluster)) == values


async def test_a_partition_that_is_gone_after_the_wait_for_the_buffer_is_named():
    producer = Producer("127.0.0.1:1", buffer_memory=2000)
    accumulator = producer._accumulator
    accumulator.grow("t", 3, 1 << 20, b"a")
    await producer.send("t", b"x" * 1500, partition=0)
    waiting = asyncio.create_task(producer.send("t", b"x" * 1500, partition=2))
    while not accumulator._waiting:
        await asyncio.sleep(0)
    accumulator.grow("t", 1, 1 << 20, b"b")
    accumulator.settle(accumulator.unsettled()[0])
    with pytest.raises(ReplogError, match="'t' has partitions 0 to 0, not 2"):
        await waiting
    await producer.close()


async def test_a_partitioner_of_ones_own_chooses_or_leaves_it(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=3, replication_factor=1)
    own = {b"a": 2, b"b": 0}
    async with Producer(bootstrap(cluster), partitioner=lambda key, count: own.get(key or b"")) as producer:
        placed = [(await producer.send_and_wait("t", b"v", key=key)).partition for key in (b"a", b"b", b"21")]
        assert placed == [2, 0, partition_for_key(b"21", 3)]
        assert {(await delivery).partition for delivery in await producer.send_many("t", [b"v"] * 5, b"a")} == {2}
    async with Producer(bootstrap(cluster), partitioner=lambda key, count: count) as producer:
        with pytest.raises(ReplogError, match="has partitions 0 to 2, not 3"):
            await producer.send("t", b"v")
