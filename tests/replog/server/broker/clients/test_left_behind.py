"""A fetch leaves nothing behind that waits for the garbage collector: a broker's looks at old objects very seldom
(`replog.server.process`), and a read that is cancelled costs a client next to nothing."""

import asyncio
import gc

import pytest

from leader.consumer_session import ConsumerSession
from replog.errors import ReplogError
from replog.rpc.methods import Log
from replog.rpc.v1 import log_pb2

FETCHES = 20


@pytest.mark.parametrize("method", ["fetch", "fetch_once"])
async def test_a_read_that_is_cancelled_in_mid_wait_leaves_no_session(cluster, method):
    await cluster.begin(1, 1)
    (broker,) = cluster.brokers.values()
    channel = cluster.channel(broker.address)
    place = [log_pb2.FetchPartition(topic="t", partition=0)]
    request = log_pb2.FetchRequest(max_wait_ms=30_000, min_bytes=1, partitions=place)

    async def cancelled() -> None:
        if method == "fetch_once":
            await channel.call(Log[method], request, 0.05)
        else:
            stream = channel.open(Log[method])
            await stream.send(request)
            await stream.receive(0.05)

    gc.collect()
    gc.disable()
    try:
        for _ in range(FETCHES):
            with pytest.raises(ReplogError):
                await cancelled()
        async with asyncio.timeout(20):
            while left := sum(isinstance(each, ConsumerSession) for each in gc.get_objects()):
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"{left} sessions are left of {FETCHES} reads")
    finally:
        gc.enable()
