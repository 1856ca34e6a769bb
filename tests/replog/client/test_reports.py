"""What clients say of themselves: counts, failures that nobody asked for, what is not there, and long waits."""

import asyncio
import gc
import socket

import pytest

from replog.client import (
    Admin,
    Consumer,
    DeniedError,
    ErrorCode,
    InvalidError,
    LogTruncated,
    PositionError,
    Producer,
    ReplogError,
    RetriableError,
    SyncProducer,
)
from tests.replog.client.conftest import TP, bootstrap, read
from tests.replog.server.broker.conftest import eventually


async def test_a_record_that_failed_and_that_nobody_asked_for_is_logged(cluster, caplog):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1, max_message_bytes="1000")
    async with Producer(bootstrap(cluster), batch_size=500) as producer:
        for _ in range(5):
            await producer.send("t", b"x" * 5000)
        asked = await producer.send("t", b"x" * 5000)
        assert "under way" in repr(asked)
        await producer.flush()
        assert "failed: MESSAGE_TOO_LARGE" in repr(asked)
        await eventually(lambda: "nobody asked for their outcomes" in caplog.text)
    assert "t-0: " in caplog.text
    caplog.clear()
    with pytest.raises(ReplogError):
        asked.result()
    del asked
    gc.collect()
    assert "nobody asked" not in caplog.text


async def test_what_is_assigned_and_not_there_is_told_once(cluster, caplog):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    async with Consumer(bootstrap(cluster)) as consumer:
        consumer.assign([("nosuch", 0), ("nosuch", 1), ("t", 0), ("t", 99)])
        assert await consumer.fetch(1) == []
    told = [record.message for record in caplog.records if "is assigned, and waited for" in record.message]
    assert sorted(told) == [
        "nosuch is assigned, and waited for: topic 'nosuch' is not known; create it, or check its name",
        "t-99 is assigned, and waited for: topic 't' has 2 partitions",
    ]


async def test_long_waits_are_told_and_a_closing_gives_up_in_time(cluster, caplog, monkeypatch):
    monkeypatch.setattr("replog.client.lifetime.LONG_S", 0.1)
    await cluster.start_broker(1)
    async with Producer(bootstrap(cluster), max_block_ms=400) as producer:
        with pytest.raises(ReplogError, match="topic 'nosuch' is not known after"):
            await producer.send("nosuch", b"x")
    assert "topic 'nosuch' is waited for, 0.4 s at most" in caplog.text
    await cluster.create_topic("t", replication_factor=1)
    producer = Producer(bootstrap(cluster), linger_ms=0)
    await producer.send_and_wait("t", b"x")
    await cluster.crash_broker(1)
    lost = await producer.send("t", b"x")
    async with asyncio.timeout(60):
        await producer.close(timeout_s=0.5)
    assert "closing waits for the outcomes of 1 records" in caplog.text
    with pytest.raises(ReplogError, match="the producer was closed"):
        lost.result()


async def test_a_with_block_that_is_interrupted_waits_for_no_broker_that_is_dead(cluster):
    """It waited as long as a delivery may take, two minutes."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    twin = await asyncio.to_thread(SyncProducer, bootstrap(cluster))
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            async with Producer(bootstrap(cluster)) as producer:
                await producer.send_and_wait("t", b"x")
                await asyncio.to_thread(twin.send, "t", b"x")
                await cluster.crash_broker(1)
                lost = [await producer.send("t", b"x"), await asyncio.to_thread(twin.send_nowait, "t", b"x")]
                await asyncio.to_thread(twin.__exit__, KeyboardInterrupt, None, None)
                raise asyncio.CancelledError
    for delivery in lost:
        with pytest.raises(ReplogError, match="the producer was closed"):
            delivery.result()


def test_errors_have_a_class_by_what_a_caller_does_about_them():
    for code, kind in (
        (ErrorCode.NETWORK_EXCEPTION, RetriableError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, DeniedError),
        (ErrorCode.OFFSET_OUT_OF_RANGE, PositionError),
        (ErrorCode.INVALID_CONFIG, InvalidError),
    ):
        error = ReplogError(code, "x")
        assert type(error) is kind
        assert (error.code, str(error)) == (code, f"{code.name}: x")
    assert isinstance(LogTruncated(TP, 5, 3), PositionError)


async def test_tls_is_said_in_the_constructor(tmp_path):
    for client in (Producer, Consumer, Admin):
        with pytest.raises(ReplogError, match=r"ssl.truststore.location=.*/none.pem: .*No such file"):
            client("127.0.0.1:1", ssl_truststore_location=tmp_path / "none.pem")
        with pytest.raises(ReplogError, match=r"ssl.truststore.location is missing"):
            client("127.0.0.1:1", ssl_keystore_location=tmp_path / "none.pem")


async def test_a_broker_that_accepts_and_says_nothing_is_not_taken_for_one_that_does_not_know_the_topic():
    """Within the time of the call; a longer one hears what each broker did."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        async with Consumer(address) as consumer, Producer(address, max_block_ms=300) as producer:
            for call in (consumer.partitions_for("t", 0.3), consumer.end_offsets([TP], 0.3), producer.send("t", b"x")):
                with pytest.raises(ReplogError, match=f"NETWORK_EXCEPTION: no broker has answered in 0.3 s.*{address}"):
                    await call


async def test_a_producer_counts_records_batches_and_requests(one_broker):
    async with Producer(one_broker, linger_ms=20, buffer_memory=1 << 20) as producer:
        before = producer.metrics()
        assert before["record-send-total"] == before["request-latency-max"] == before["batch-size-avg"] == 0
        waiting = await producer.send_many("t", [b"x" * 100] * 50)
        assert producer.metrics()["buffer-available-bytes"] < producer.metrics()["buffer-total-bytes"] == 1 << 20
        for delivery in waiting:
            await delivery
        after = producer.metrics()
    assert after["record-send-total"] == 50
    assert after["record-error-total"] == after["record-retry-total"] == 0
    assert after["records-per-batch-avg"] * after["request-total"] >= 50
    assert 50 * 100 <= after["batch-size-avg"] * 50 / after["records-per-batch-avg"] < 50 * 200
    assert 0 < after["request-latency-avg"] <= after["request-latency-max"] < 60_000
    assert after["buffer-available-bytes"] == 1 << 20


async def test_a_consumer_counts_what_it_read_and_how_far_it_lags(one_broker):
    async with Producer(one_broker) as producer:
        for delivery in await producer.send_many("t", [b"x" * 100] * 50):
            await delivery
    async with Consumer(one_broker, auto_offset_reset="earliest") as consumer:
        assert consumer.metrics()["records-lag-max"] == 0
        consumer.assign([TP])
        assert len(await consumer.fetch(timeout_s=60, max_records=10)) == 10
        assert consumer.metrics()["records-lag-max"] == 40
        assert len(await read(consumer, 40)) == 40
        counts = consumer.metrics()
    assert counts["records-consumed-total"] == 50
    assert counts["bytes-consumed-total"] > 50 * 100
    assert counts["records-lag-max"] == 0
    assert counts["fetch-total"] >= 1
    assert counts["fetch-latency-avg"] <= counts["fetch-latency-max"]
