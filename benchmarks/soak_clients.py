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
from replog.rpc.transport import Channel
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
TAILS = 2  # consumers that only follow the log's end
READ_EVERY_S, CALL_EVERY_S, CONNECTION_EVERY_S, TOPIC_EVERY_S = 0.1, 0.2, 0.5, 15.0
CALL_S = 5.0
SHOWN = 5  # errors, and records out of order, in a report
WAYS = ("a call's deadline", "a stream's deadline", "the stream", "the reader")  # these end a read
MID_WAIT_S = 0.03


def waiting_fetch() -> log_pb2.FetchRequest:
    """Return a fetch that the leader of `QUIET` answers only after half a minute."""
    return log_pb2.FetchRequest(
        max_wait_ms=30_000, min_bytes=1, partitions=[log_pb2.FetchPartition(topic=QUIET, partition=0)]
    )


async def cancel_a_read(channel: Channel, way: str) -> None:
    """Cancel a read while it waits. Raises ReplogError if the broker is down."""
    if way == "a call's deadline":
        with contextlib.suppress(ReplogError):
            await channel.call(Log["fetch_once"], waiting_fetch(), MID_WAIT_S)
        return
    stream = channel.open(Log["fetch"])
    await stream.send(waiting_fetch())
    if way == "a stream's deadline":
        with contextlib.suppress(ReplogError):
            await stream.receive(MID_WAIT_S)
        return
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(MID_WAIT_S)
    if way == "the stream":
        stream.cancel()
    else:
        reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    stream.cancel()


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
                    count = len(range(partition, records, PARTITIONS))
                    first, self._next[partition] = self._next[partition], self._next[partition] + count
                    values = [b"%d" % number for number in range(first, first + count)]
                    sent = await producer.send_many(
                        STEADY, [value.ljust(RECORD_BYTES) for value in values], partition=partition
                    )
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
        """Report; the longest wait for an acknowledgement is that since the last report."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return {
            "acknowledged": self._acknowledged,
            "failed": len(self._failed),
            "errors": self._failed[:SHOWN],
            "longest_s": longest_s,
        }

    async def end(self) -> Figures:
        """Stop, and return the records sent to each partition; `run` returns once all have their outcomes."""
        self._ended.set()
        return {"sent": self._next}


class Reader:
    def __init__(self, bootstrap: str, _: random.Random) -> None:
        self._bootstrap = bootstrap
        self._next = [0] * PARTITIONS
        self._wrong: list[str] = []
        self._followed = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as all_of_them:
            for _ in range(TAILS):
                all_of_them.create_task(self._follow())
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

    async def _follow(self) -> None:
        async with Consumer(self._bootstrap) as consumer:
            consumer.assign(ALL)
            while True:
                self._followed += len(await consumer.fetch())

    async def tell(self) -> Figures:
        return {
            "read": self._next,
            "followed": self._followed,
            "wrong": len(self._wrong),
            "examples": self._wrong[:SHOWN],
        }


class PasserBy:
    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self._bootstrap = bootstrap
        self._addresses = bootstrap.split(",")
        self._rng = rng
        self._transport = transport_named()
        self._done = Counter[str]()

    async def run(self) -> None:
        channels = [self._transport.connect(address) for address in self._addresses]
        async with Admin(self._bootstrap) as admin, asyncio.TaskGroup() as deeds:
            deeds.create_task(self._again("cancelled reads", READ_EVERY_S, lambda: self._cancelled_read(channels[0])))
            deeds.create_task(self._again("calls", CALL_EVERY_S, lambda: self._unary_call(self._rng.choice(channels))))
            deeds.create_task(self._again("connections", CONNECTION_EVERY_S, self._connection))
            deeds.create_task(self._again("topics", TOPIC_EVERY_S, lambda: self._topic(admin)))

    async def _again(self, name: str, every_s: float, deed: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await deed()
                self._done[name] += 1
            except ReplogError:  # most likely its broker is down
                self._done[f"{name} that failed"] += 1
            await asyncio.sleep(every_s)

    async def _cancelled_read(self, channel: Channel) -> None:
        await cancel_a_read(channel, self._rng.choice(WAYS))

    async def _unary_call(self, channel: Channel) -> None:
        partition = self._rng.randrange(PARTITIONS)
        which = self._rng.randrange(3)
        if which == 0:
            await channel.call(Log["get_metadata"], log_pb2.GetMetadataRequest(), CALL_S)
            return
        ends = [log_pb2.ListOffsetsPartition(topic=STEADY, partition=partition, timestamp=-1)]
        answer = await channel.call(Log["list_offsets"], log_pb2.ListOffsetsRequest(partitions=ends), CALL_S)
        if which == 1:
            offset = max(0, answer.partitions[0].offset - 10)
            place = [log_pb2.FetchPartition(topic=STEADY, partition=partition, fetch_offset=offset)]
            await channel.call(Log["fetch_once"], log_pb2.FetchRequest(max_bytes=1 << 16, partitions=place), CALL_S)

    async def _connection(self) -> None:
        """Open a connection, and close it while a stream waits on it."""
        channel = self._transport.connect(self._rng.choice(self._addresses))
        try:
            await channel.call(Log["get_metadata"], log_pb2.GetMetadataRequest(without_topics=True), CALL_S)
            await channel.open(Log["fetch"]).send(waiting_fetch())
        finally:
            await channel.close()

    async def _topic(self, admin: Admin) -> None:
        """Create, write, read and delete a topic, with new clients."""
        topic = f"passing-{self._done['topics']}-{self._done['topics that failed']}"
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
