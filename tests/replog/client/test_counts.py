"""What clients count of themselves, with real brokers."""

from replog.client import Consumer, Producer
from tests.replog.client.conftest import TP, read


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
