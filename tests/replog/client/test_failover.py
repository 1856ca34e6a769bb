"""Leaders that die or hang as processes do, under load."""

import asyncio
import itertools
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition

pytestmark = pytest.mark.processes

MORE = 200  # records that are acknowledged before the fault, and after it
SILENCE_S = 20.0  # nobody waited for a request's timeout, which is 30 s
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(Path(tmp_path_factory.mktemp("cluster")), brokers=3) as cluster:
        yield cluster


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=lambda fault: fault.name)
async def test_clients_follow_to_the_new_leader_within_seconds(local, fault):
    """A killed leader resets its connections; a stopped one just says nothing, long after another leads."""
    topic = TopicPartition(f"t-{fault.name}", 0)
    address = local.bootstrap
    async with (
        Admin(address) as admin,
        Producer(address) as producer,
        Consumer(address, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topic(topic.topic)
        consumer.assign([topic])
        arrivals: list[tuple[float, int]] = []  # when each record was read, and its offset
        values: list[bytes | None] = []
        acknowledged: dict[int, bytes] = {}
        stopped = asyncio.Event()

        async def consume() -> None:
            while True:
                records = await consumer.fetch()
                arrivals.extend((time.monotonic(), record.offset) for record in records)
                values.extend(record.value for record in records)

        async def produce() -> float:
            """Until told to stop; the longest silence between two acknowledgements, in seconds."""
            longest, last = 0.0, time.monotonic()
            while not stopped.is_set():
                value = b"%d" % len(acknowledged)
                acknowledged[(await (await producer.send(topic.topic, value))).offset] = value
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            return longest

        async def acknowledged_more() -> None:
            """Records that were sent from now on."""
            wanted = len(acknowledged) + MORE
            while len(acknowledged) < wanted:
                assert not producing.done(), producing.result()
                await asyncio.sleep(0.02)

        consuming, producing = asyncio.create_task(consume()), asyncio.create_task(produce())
        leader = (await admin.describe_topic(topic.topic)).partitions[0].leader
        try:
            async with asyncio.timeout(PATIENCE_S):
                await acknowledged_more()
                await asyncio.to_thread(local.kill if fault is signal.SIGKILL else local.pause, leader)
                await acknowledged_more()
                stopped.set()
                silence = await producing
                end = (await consumer.end_offsets([topic]))[topic]
                while not arrivals or arrivals[-1][1] < end - 1:
                    await asyncio.sleep(0.05)
        finally:
            consuming.cancel()
            producing.cancel()
            await asyncio.to_thread(local.start if fault is signal.SIGKILL else local.resume, leader)
        gap = max(b[0] - a[0] for a, b in itertools.pairwise(arrivals))
        assert [offset for _, offset in arrivals] == list(range(end))
        assert len(values) == len(set(values)), "a record is there twice"
        assert {offset: values[offset] for offset in acknowledged} == acknowledged
        assert silence < SILENCE_S, f"the producer was silent for {silence:.1f} s after {fault.name}"
        assert gap < SILENCE_S, f"the consumer was silent for {gap:.1f} s after {fault.name}"
        print(f"{fault.name}: producer silent for {silence:.2f} s, consumer for {gap:.2f} s, {end} records")
