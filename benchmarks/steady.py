"""A producer of few records to its own topic, while a benchmark works on another topic.

`python -m benchmarks.steady NAME BOOTSTRAP` takes orders (`benchmarks.beside`), and reports the waits of its records.
"""

import asyncio
import sys

from benchmarks.beside import Figures, answer_orders
from benchmarks.load import Load, write_everywhere
from benchmarks.measure import precise_loop
from benchmarks.peers.kafka import producer as kafka_producer
from benchmarks.peers.replog import producer as replog_producer

TOPIC, PARTITIONS, PER_SECOND = "steady", 6, 100
PRODUCERS = {"replog": replog_producer, "Kafka": kafka_producer}


async def send_steadily(name: str, bootstrap: str) -> None:
    async with PRODUCERS[name](bootstrap) as send:
        await write_everywhere(send, TOPIC, PARTITIONS)
        load = Load(send, TOPIC, PARTITIONS, PER_SECOND)

        async def go() -> Figures:
            nonlocal load
            load = Load(send, TOPIC, PARTITIONS, PER_SECOND)
            load.begin()
            return {}

        async def tell() -> Figures:
            await load.end()
            return load.figures()

        await answer_orders(go=go, tell=tell)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(send_steadily(*sys.argv[1:]))
