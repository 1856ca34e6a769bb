"""Brokers against each other over real gRPC."""

from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually

TP = TopicPartition("t", 0)


async def test_idle_followers_hear_of_the_high_watermark_long_before_their_fetch_times_out(cluster):
    """Divergence 6, where HW-10 would leave them up to `replica.fetch.wait.max.ms` behind."""
    await cluster.begin(3, brokers={"replica_fetch_wait_max_ms": 60_000, "replica_lag_time_max_ms": 120_000})
    await cluster.produce(TP, batch(b"one"))
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(log.high_watermark == 1 for log in logs), 30, lambda: [log.high_watermark for log in logs]
    )
