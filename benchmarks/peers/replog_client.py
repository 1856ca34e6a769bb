"""replog's client as a separate process, for `ReplogPeer`.

`python -m benchmarks.peers.replog_client BOOTSTRAP TRANSPORT`
"""

import asyncio
import os
import sys
import time
from collections import deque
from typing import Any

from benchmarks.beside import Figures, answer_orders
from benchmarks.measure import precise_loop
from replog.client import Consumer, Producer
from replog.client.producing.producer import Delivery
from replog.rpc.allocator import tune_allocator
from replog.rpc.transports import client_tls, transport_named

BYTES_AT_ONCE = 256 << 10


class Client:
    def __init__(self, bootstrap: str, transport: str) -> None:
        self._bootstrap = bootstrap
        self._transport = transport_named(transport, client_tls())

    async def produce(
        self, topic: str, partitions: int, record_bytes: int, records: int, settings: dict[str, Any]
    ) -> Figures:
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

    async def pace(
        self,
        topic: str,
        partitions: int,
        record_bytes: int,
        records: int,
        per_second: float,
        warm_up: int,
        settings: dict[str, Any],
    ) -> Figures:
        value = os.urandom(record_bytes)
        waits_us = [0] * records
        batches: dict[int, list[tuple[int, float]]] = {}  # each partition's open batch: its records and due times

        async def acknowledged(first: Delivery, batch: list[tuple[int, float]]) -> None:
            await first
            now = time.perf_counter()
            for number, due in batch:
                waits_us[number] = round((now - due) * 1e6)

        async with (
            Producer(self._bootstrap, transport=self._transport, **settings) as producer,
            asyncio.TaskGroup() as answers,
        ):
            await (await producer.send(topic, value, partition=0))  # otherwise the first record waits for metadata
            first = time.perf_counter()
            for number in range(records):
                due, partition = first + number / per_second, number % partitions
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                delivery = await producer.send(topic, value, partition=partition)
                if delivery.starts_batch:
                    batches[partition] = []
                    answers.create_task(acknowledged(delivery, batches[partition]))
                batches[partition].append((number, due))
        return {"waits_us": waits_us[warm_up:]}

    async def consume(self, topic: str, partitions: int, record_bytes: int, records: int) -> Figures:
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
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(answer_orders(produce=client.produce, pace=client.pace, consume=client.consume))
