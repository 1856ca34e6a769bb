"""A consumer gets everything however an answer's limit cuts the partitions' batches (FE-9, FE-10)."""

import asyncio

import pytest

from replog.client import Admin, Consumer, Producer

pytestmark = pytest.mark.processes

PARTITIONS = 4
VALUES = 60
VALUE_BYTES = 10_000


@pytest.mark.parametrize("fetch_max_bytes", [1, 15_000, 25_000, 1 << 20])
def test_batches_cut_off_by_the_answers_limit_are_fetched_again(cluster, fetch_max_bytes):
    topic = f"limits-{fetch_max_bytes}"

    async def run() -> list[tuple[int, int, bytes | None]]:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=1)
        async with Producer(cluster.bootstrap, batch_size=2 * VALUE_BYTES) as producer:
            for number in range(VALUES):
                for partition in range(PARTITIONS):
                    await producer.send(topic, bytes([number]) * VALUE_BYTES, partition=partition)
        async with Consumer(
            cluster.bootstrap, auto_offset_reset="earliest", fetch_max_bytes=fetch_max_bytes
        ) as consumer:
            consumer.assign((topic, partition) for partition in range(PARTITIONS))
            values = []
            while len(values) < VALUES * PARTITIONS and (records := await consumer.fetch(60)):
                values += [(record.partition, record.offset, record.value) for record in records]
        return values

    expected = [(p, n, bytes([n]) * VALUE_BYTES) for p in range(PARTITIONS) for n in range(VALUES)]
    assert sorted(asyncio.run(run())) == expected
