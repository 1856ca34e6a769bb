"""A consumer behind a slow line, or one that is dead."""

from replog.client import Consumer
from replog.local_cluster.ports import free_port
from tests.replog.client.conftest import read
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.broker.conftest import TP, batch, eventually

BYTES_PER_S = 100_000
BATCH_BYTES = 10_000
BATCHES = 40
PATIENCE_S = 120.0


async def test_a_consumer_to_whom_a_whole_answer_takes_longer_than_the_timeout_advances(cluster):
    """All there is takes four seconds on this line, and an answer may take two."""
    listener = f"127.0.0.1:{free_port([])}"
    async with proxy_to(listener, BYTES_PER_S) as line:
        await cluster.start_broker(1, listeners=listener, advertised_listeners=line.address)
        await cluster.create_topic("t", replication_factor=1)
        for _ in range(BATCHES):
            await cluster.produce(TP, batch(b"x" * BATCH_BYTES))
        async with Consumer(line.address, auto_offset_reset="earliest", request_timeout_ms=1500) as consumer:
            consumer.assign([TP])
            await read(consumer, BATCHES, PATIENCE_S)
        await cluster.crash_broker(1)


async def test_a_broker_that_falls_silent_is_asked_last_long_before_its_request_times_out(cluster):
    listener = f"127.0.0.1:{free_port([])}"
    async with proxy_to(listener) as line:
        await cluster.start_broker(1, listeners=listener, advertised_listeners=line.address)
        await cluster.create_topic("t", replication_factor=1)
        await cluster.produce(TP, batch(b"x"))
        async with Consumer(line.address, auto_offset_reset="earliest", request_timeout_ms=60_000) as consumer:
            consumer.assign([TP])
            await read(consumer, 1, PATIENCE_S)
            line.cut()
            await eventually(lambda: line.address in consumer._metadata._silent, 30)
        line.heal()
        await cluster.crash_broker(1)
