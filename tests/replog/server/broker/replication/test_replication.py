"""Brokers against each other over real gRPC."""

from replog.rpc import methods
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually, produce_request

TP = TopicPartition("t", 0)


async def test_idle_followers_hear_of_the_high_watermark_long_before_their_fetch_times_out(cluster):
    """Divergence 6, where HW-10 would leave them up to `replica.fetch.wait.max.ms` behind."""
    await cluster.begin(3, brokers={"replica_fetch_wait_max_ms": 60_000, "replica_lag_time_max_ms": 120_000})
    await cluster.produce(TP, batch(b"one"))
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(log.high_watermark == 1 for log in logs), 30, lambda: [log.high_watermark for log in logs]
    )


async def test_many_produces_on_one_stream_are_answered_by_their_ids(cluster):
    await cluster.begin(3)
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    records = batch(b"x" * 100)
    for correlation_id in range(200):
        await stream.send(produce_request(TP, records, correlation_id=correlation_id))
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
