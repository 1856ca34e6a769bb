"""A producer of few records to a topic of its own, whatever the benchmark beside it does to another.

`python -m benchmarks.steady NAME BOOTSTRAP` sends as `benchmarks.beside` says, and tells how long its records waited.
"""

import asyncio
import sys

from benchmarks.beside import Figures, answer_orders
from benchmarks.contenders.kafka import producer as kafka_producer
from benchmarks.contenders.replog import producer as replog_producer
from benchmarks.load import Load, write_everywhere
from benchmarks.measure import precise_loop

TOPIC, PARTITIONS, PER_SECOND = "steady", 6, 100
PRODUCERS = {"replog": replog_producer, "kafka": kafka_producer}


async def send_steadily(name: str, bootstrap: str) -> None:
    async with PRODUCERS[name](bootstrap) as send:
        await write_everywhere(send, TOPIC, PARTITIONS)
        load = Load(send, TOPIC, PARTITIONS, PER_SECOND)

        async def tell() -> Figures:
            nonlocal load
            ended, load = load, Load(send, TOPIC, PARTITIONS, PER_SECOND)
            await ended.end()
            latency = ended.latency()
            return {
                "p50_ms": latency.p50_ms,
                "p99_ms": latency.p99_ms,
                "max_ms": latency.max_ms,
                "failed_records": len(ended.failed),
            }

        await answer_orders(lambda: load.begin(), tell)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(send_steadily(*sys.argv[1:]))
