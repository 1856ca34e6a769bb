"""replog's client as a separate process, for `ReplogPeer`.

`python -m benchmarks.peers.replog_client BOOTSTRAP TRANSPORT`
"""

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections import deque
from typing import Any

from benchmarks.harness import Figures, answer_orders, precise_loop
from benchmarks.peers.peer import FAILED
from replog.client import Consumer, Producer
from replog.client.producing.producer import Delivery
from replog.common.buffers import tune_allocator
from replog.errors import ReplogError
from replog.rpc.transports import client_tls, transport_named
from replog.topic import TopicPartition

BYTES_AT_ONCE = 256 << 10


class Client:
    def __init__(self, bootstrap: str, transport: str) -> None:
        self._bootstrap = bootstrap
        self._transport = transport_named(transport, client_tls())

    async def produce(self, topic: str, record_bytes: int, records: int, settings: dict[str, Any]) -> Figures:
        values = [os.urandom(record_bytes)] * max(1, BYTES_AT_ONCE // record_bytes)
        unsettled: deque[Delivery] = deque()  # the first of each batch
        async with Producer(self._bootstrap, transport=self._transport, **settings) as producer:
            started = time.perf_counter()
            for sent in range(0, records, len(values)):
                deliveries = await producer.send_many(topic, values[: records - sent])
                unsettled.extend(delivery for delivery in deliveries if delivery.starts_batch)
                while unsettled and unsettled[0].done():
                    unsettled.popleft().result()
            await producer.flush()
            seconds = time.perf_counter() - started
            for delivery in unsettled:
                delivery.result()
        return {"seconds": seconds}

    async def go(self, **pace: Any) -> Figures:
        """Begin to send records at a fixed rate, until `tell`."""
        self._stopped, begun = asyncio.Event(), asyncio.Event()
        self._pacing = asyncio.create_task(self._pace(begun, **pace))
        await asyncio.wait([self._pacing, asyncio.create_task(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
        return {}

    async def tell(self) -> Figures:
        """Stop, wait for all answers, and return them in the order in which they were due."""
        self._stopped.set()
        return {"waits_us": await self._pacing}

    async def pace(self, **pace: Any) -> Figures:
        await self.go(**pace)
        return {"waits_us": await self._pacing}

    async def _pace(
        self,
        begun: asyncio.Event,
        topics: dict[str, int],
        record_bytes: int,
        per_second: float,
        settings: dict[str, Any],
        records: int | None = None,
    ) -> list[int]:
        """Send the n-th record when it is due, at n / `per_second`, or late if an earlier one delays the sender, to the
        partitions in turn. Return the microseconds from when each was due, or `FAILED`: so a pause of the cluster shows
        in every record that was due in it.
        """
        targets = [TopicPartition(topic, number) for topic, size in topics.items() for number in range(size)]
        value, waits_us = os.urandom(record_bytes), list[int]()
        batches: dict[TopicPartition, list[tuple[int, float]]] = {}  # each open batch: its records and due times

        async def acknowledged(first: Delivery, batch: list[tuple[int, float]]) -> None:
            with contextlib.suppress(ReplogError):
                await first
                now = time.perf_counter()
                for number, due in batch:
                    waits_us[number] = round((now - due) * 1e6)

        async with (
            Producer(self._bootstrap, transport=self._transport, **settings) as producer,
            asyncio.TaskGroup() as answers,
        ):
            await (await producer.send(targets[0].topic, value, partition=0))  # otherwise the first waits for metadata
            begun.set()
            first = time.perf_counter()
            for number in itertools.count() if records is None else range(records):
                due, target = first + number / per_second, targets[number % len(targets)]
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                if self._stopped.is_set():
                    break
                waits_us.append(FAILED)
                with contextlib.suppress(ReplogError):
                    delivery = await producer.send(target.topic, value, partition=target.partition)
                    if delivery.starts_batch:
                        batches[target] = []
                        answers.create_task(acknowledged(delivery, batches[target]))
                    batches[target].append((number, due))
        return waits_us

    async def consume(self, topic: str, partitions: int, records: int) -> Figures:
        async with Consumer(self._bootstrap, transport=self._transport, auto_offset_reset="earliest") as consumer:
            started = time.perf_counter()
            consumer.assign([(topic, partition) for partition in range(partitions)])
            left = records
            while left > 0:
                taken = await consumer.fetch(timeout_s=10)
                if not taken:
                    raise TimeoutError(f"{left} of {records} records of {topic} did not arrive within 10 s")
                left -= len(taken)
            return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    tune_allocator()
    client = Client(*sys.argv[1:])
    orders = {name: getattr(client, name) for name in ("produce", "go", "tell", "pace", "consume")}
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(answer_orders(**orders))
