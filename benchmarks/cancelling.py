"""Reads that are cancelled in mid-wait, as fast as they go.

`python -m benchmarks.cancelling TRANSPORT ADDRESS` takes orders as `benchmarks.beside` says.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable

from benchmarks.beside import Figures, answer_orders
from replog.errors import ReplogError
from replog.rpc.methods import Log
from replog.rpc.transport import Channel
from replog.rpc.transports import transport_named
from replog.rpc.v1 import log_pb2

QUIET = "quiet"  # a topic that nobody writes to
WAYS = ("a call's deadline", "a stream's deadline", "the stream", "the reader")  # which end a read
MID_WAIT_S = 0.03
CONNECTIONS, AT_ONCE = 4, 12  # on each: a broker takes 500 resets a second of one (`replog.rpc.http2.bounds`)


def waiting_fetch() -> log_pb2.FetchRequest:
    """It is answered after half a minute by the broker that leads `QUIET`."""
    return log_pb2.FetchRequest(
        max_wait_ms=30_000, min_bytes=1, partitions=[log_pb2.FetchPartition(topic=QUIET, partition=0)]
    )


async def cancel_a_read(channel: Channel, way: str) -> None:
    """Raises ReplogError if the broker is gone."""
    if way == "a call's deadline":
        await _no_answer(channel.call(Log["fetch_once"], waiting_fetch(), MID_WAIT_S))
        return
    stream = channel.open(Log["fetch"])
    await stream.send(waiting_fetch())
    if way == "a stream's deadline":
        await _no_answer(stream.receive(MID_WAIT_S))
        return
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(MID_WAIT_S)
    if way == "the stream":
        stream.cancel()
    else:
        reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    stream.cancel()


async def _no_answer(waiting: Awaitable[object]) -> None:
    with contextlib.suppress(ReplogError):
        await waiting


async def main(transport: str, address: str) -> None:
    channels = [transport_named(transport).connect(address) for _ in range(CONNECTIONS)]

    async def cancel(way: str, reads: int) -> Figures:
        for _ in range(0, reads, CONNECTIONS * AT_ONCE):
            await asyncio.gather(*(cancel_a_read(channel, way) for channel in channels * AT_ONCE))
        return {}

    await answer_orders(cancel=cancel)
    for channel in channels:
        await channel.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
