"""A follower behind a slow line."""

from replog.local_cluster.ports import free_port
from replog.topic import TopicPartition
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.broker.conftest import batch, eventually

TP = TopicPartition("t", 0)
BYTES_PER_S = 100_000
BATCH_BYTES = 10_000
BATCHES = 40


async def test_a_follower_to_whom_a_whole_answer_takes_longer_than_the_timeout_advances(cluster):
    """All that it missed takes four seconds on this line, and an answer may take one and a half."""
    listener = f"127.0.0.1:{free_port([])}"
    async with proxy_to(listener, BYTES_PER_S) as line:
        await cluster.start_broker(1, listeners=listener, advertised_listeners=line.address)
        await cluster.start_broker(2)
        await cluster.create_topic("t", replication_factor=2, min_insync_replicas="1")
        await cluster.crash_broker(2)
        await cluster.led(TP)  # broker 2 may have been its leader
        for _ in range(BATCHES):
            await cluster.produce(TP, batch(b"x" * BATCH_BYTES), acks=1)
        await cluster.start_broker(2, replica_socket_timeout_ms=1500)
        await eventually(lambda: cluster.isr(TP) == {1, 2}, 120.0, lambda: cluster.log(2, TP).log_end_offset)
        await cluster.crash_broker(1)
