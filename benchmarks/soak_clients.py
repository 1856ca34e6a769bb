"""The client processes of `benchmarks.soak`: `python -m benchmarks.soak_clients NAME BOOTSTRAP SEED`.

The writer numbers the records of each partition from 0, with a burst now and then. The reader reads all of them and
reports numbers out of order. The passer-by opens streams and cancels them while they wait, makes unary calls, topics
and connections, and closes each. They take the orders of `benchmarks.beside`.
"""

import asyncio
import contextlib
import itertools
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.beside import Figures, answer_orders
from replog.client import Admin, Consumer, Delivery, Producer
from replog.errors import ReplogError
from replog.rpc.methods import Log
from replog.rpc.transports import transport_named
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

STEADY = "steady"
QUIET = "quiet"  # a topic that nobody writes to
PARTITIONS = 6
ALL = [TopicPartition(STEADY, number) for number in range(PARTITIONS)]
PER_SECOND, RECORD_BYTES = 200, 1024
TICK_S = 0.25  # the records of this time are sent together
BURST, BURST_EVERY_S = 6000, 60.0  # records of a burst, and seconds between bursts
CALL_S = 5.0
SHOWN = 5  # errors, and records out of order, in a report
MID_WAIT_S = 0.03


class Writer:
    def __init__(self, bootstrap: str, _: random.Random) -> None:
        self._bootstrap = bootstrap
        self._ended = asyncio.Event()
        self._next = [0] * PARTITIONS
        self._acknowledged = 0
        self._failed: list[str] = []
        self._longest_s = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        begun = burst_at = loop.time()
        async with Producer(self._bootstrap) as producer, asyncio.TaskGroup() as outcomes:
            for tick in itertools.count(1):
                records = round(PER_SECOND * TICK_S)
                if loop.time() >= burst_at + BURST_EVERY_S:
                    burst_at, records = loop.time(), BURST
                for partition in range(PARTITIONS):
                    first = self._next[partition]
                    self._next[partition] += len(range(partition, records, PARTITIONS))
                    values = [(b"%d" % n).ljust(RECORD_BYTES) for n in range(first, self._next[partition])]
                    sent = await producer.send_many(STEADY, values, partition=partition)
                    outcomes.create_task(self._outcomes(sent, loop.time()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(begun + tick * TICK_S):
                        await self._ended.wait()
                if self._ended.is_set():
                    return

    async def _outcomes(self, sent: Sequence[Delivery], since: float) -> None:
        for delivery in sent:
            try:
                await delivery
                self._acknowledged += 1
            except ReplogError as error:
                self._failed.append(str(error))
        self._longest_s = max(self._longest_s, asyncio.get_running_loop().time() - since)

    async def tell(self) -> Figures:
        failed = {"failed": len(self._failed), "errors": self._failed[:SHOWN]}
        return {"acknowledged": self._acknowledged, "longest_s": self._longest_s, **failed}

    async def end(self) -> Figures:
        """Stop, and return the records sent to each partition; `run` returns once all have their outcomes."""
        self._ended.set()
        return {"sent": self._next}


class Reader:
    def __init__(self, bootstrap: str, _: random.Random) -> None:
        self._bootstrap = bootstrap
        self._next = [0] * PARTITIONS
        self._wrong: list[str] = []

    async def run(self) -> None:
        async with Consumer(self._bootstrap, auto_offset_reset="error") as consumer:
            consumer.assign(ALL)
            for partition in ALL:
                consumer.seek(partition, 0)
            while True:
                for record in await consumer.fetch():
                    self._check(record.partition, int(record.value or b"-1"))

    def _check(self, partition: int, number: int) -> None:
        wanted = self._next[partition]
        if number != wanted:
            self._wrong.append(f"{STEADY}-{partition}: record {number} instead of {wanted}")
        self._next[partition] = max(wanted, number + 1)

    async def tell(self) -> Figures:
        return {"read": self._next, "wrong": len(self._wrong), "examples": self._wrong[:SHOWN]}


class PasserBy:
    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self._bootstrap = bootstrap
        self._addresses = bootstrap.split(",")
        self._rng = rng
        self._transport = transport_named()
        self._channels = [self._transport.connect(address) for address in self._addresses]
        self._waiting_fetch = log_pb2.FetchRequest(  # the leader of `QUIET` answers it only after half a minute
            max_wait_ms=30_000, min_bytes=1, partitions=[log_pb2.FetchPartition(topic=QUIET, partition=0)]
        )
        self._done = Counter[str]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as actions:
            actions.create_task(self._again(0.1, self._cancelled_read))
            actions.create_task(self._again(0.2, self._unary_call))
            actions.create_task(self._again(0.5, self._connection))
            actions.create_task(self._again(15.0, self._topic))

    async def _again(self, every_s: float, action: Callable[[], Awaitable[None]]) -> None:
        name = action.__name__.strip("_")
        while True:
            try:
                await action()
                self._done[name] += 1
            except ReplogError:  # most likely its broker is down
                self._done[f"{name}, failed"] += 1
            await asyncio.sleep(every_s)

    async def _cancelled_read(self) -> None:
        """Cancel a read while it waits: by its deadline, its stream or its task."""
        stream = self._channels[0].open(Log["fetch"])
        await stream.send(self._waiting_fetch)
        deadline_s = self._rng.choice((MID_WAIT_S, None))
        reading = asyncio.create_task(stream.receive(deadline_s))
        await asyncio.sleep(MID_WAIT_S)
        if deadline_s is None and self._rng.random() < 0.5:
            reading.cancel()
        elif deadline_s is None:
            stream.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        stream.cancel()

    async def _unary_call(self) -> None:
        """Call a broker; look for the end of a log and fetch from there; or let a fetch's deadline pass."""
        channel, partition = self._rng.choice(self._channels), self._rng.randrange(PARTITIONS)
        which = self._rng.randrange(3)
        if which == 0:
            await channel.call(Log["get_metadata"], log_pb2.GetMetadataRequest(), CALL_S)
        elif which == 1:
            ends = [log_pb2.ListOffsetsPartition(topic=STEADY, partition=partition, timestamp=-1)]
            answer = await channel.call(Log["list_offsets"], log_pb2.ListOffsetsRequest(partitions=ends), CALL_S)
            offset = max(0, answer.partitions[0].offset - 10)
            place = [log_pb2.FetchPartition(topic=STEADY, partition=partition, fetch_offset=offset)]
            await channel.call(Log["fetch_once"], log_pb2.FetchRequest(max_bytes=1 << 16, partitions=place), CALL_S)
        else:
            with contextlib.suppress(ReplogError):
                await self._channels[0].call(Log["fetch_once"], self._waiting_fetch, MID_WAIT_S)

    async def _connection(self) -> None:
        """Open a connection, and close it while a stream waits on it."""
        channel = self._transport.connect(self._rng.choice(self._addresses))
        try:
            await channel.call(Log["get_metadata"], log_pb2.GetMetadataRequest(without_topics=True), CALL_S)
            await channel.open(Log["fetch"]).send(self._waiting_fetch)
        finally:
            await channel.close()

    async def _topic(self) -> None:
        """Create, write, read and delete a topic, with new clients."""
        topic = f"passing-{self._done.total()}"
        async with Admin(self._bootstrap) as admin:
            await admin.create_topic(topic, partitions=2, replication_factor=3)
            async with Producer(self._bootstrap) as producer:
                for delivery in await producer.send_many(topic, [b"x" * RECORD_BYTES] * 10, partition=0):
                    await delivery
            async with Consumer(self._bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.assign([(topic, 0), (topic, 1)])
                await consumer.fetch()
            await admin.delete_topic(topic)

    async def tell(self) -> Figures:
        return dict(self._done)


CLIENTS: dict[str, type[Writer | Reader | PasserBy]] = {"writer": Writer, "reader": Reader, "passer-by": PasserBy}


async def main(name: str, bootstrap: str, seed: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the soak gets a terminal's Ctrl-C too, and closes our stdin
    client = CLIENTS[name](bootstrap, random.Random(seed))
    running = asyncio.create_task(client.run())
    orders = {name: getattr(client, name) for name in ("tell", "end") if hasattr(client, name)}
    answering = asyncio.create_task(answer_orders(**orders))
    await asyncio.wait([running, answering], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
        await answering
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
