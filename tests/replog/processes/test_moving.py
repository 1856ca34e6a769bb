"""Partitions move between real brokers, moves are redirected and cancelled, brokers are killed with kill -9 on the way,
all of it under load: no acknowledged record is lost or doubled, and the replicas end where they were sent, the same
bytes on each (CT-14, CT-15, CT-16, CT-17).
"""

import asyncio
import random
import time
from collections.abc import Iterator

import pytest

from replog.chaos.client import ASSIGNED, TOPICS
from replog.chaos.verdict import require_same_records
from replog.client import Admin, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.simulator.history import History, ProducerSend
from replog.topic import TopicPartition
from tests.replog.processes.load import IN_SYNC_S, load_on
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

BROKERS = (1, 2, 3, 4)
SEED = 1
STEPS = 16
BALLAST = 60  # records of a partition that make copying take its time
BALLAST_BYTES = 90_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("four"), brokers=len(BROKERS)) as running:
        yield running
        assert running.down() == []


async def _add_ballast(bootstrap: str, history: History) -> None:
    sent = []
    async with Producer(bootstrap) as producer:
        for number in range(BALLAST):
            for partition in ASSIGNED:
                name = b"ballast:%d" % number
                send = ProducerSend("ballast", partition, name, -1, idempotent=True, invoked_s=time.monotonic())
                value = name + b" " + bytes(BALLAST_BYTES)
                sent.append((send, await producer.send(partition.topic, value, partition=partition.partition)))
    for send, delivery in sent:
        history.sends.append(send)
        history.acknowledged(send, delivery.result(), time.monotonic())


async def _move_about(cluster: LocalCluster, rng: random.Random) -> str:
    """Moves, redirections, cancels and kills by chance, until nothing moves any more."""
    story = []
    async with Admin(cluster.bootstrap) as admin:
        for _ in range(STEPS):
            partition = rng.choice(ASSIGNED)
            target = None if rng.random() < 0.25 else rng.sample(BROKERS, rng.choice([2, 3, 3]))
            (error,) = (await admin.alter_partition_reassignments({partition: target})).values()
            story.append(f"{partition} to {target}{f' refused: {error.code.name}' if error else ''}")
            await asyncio.sleep(rng.uniform(0.0, 0.15))
            if rng.random() < 0.4:
                broker = rng.choice(BROKERS)
                await asyncio.to_thread(cluster.kill, broker)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                await asyncio.to_thread(cluster.start, broker)
                story.append(f"{broker} killed and started")
        async with asyncio.timeout(IN_SYNC_S):
            while await admin.list_partition_reassignments():
                await asyncio.sleep(0.1)
    return ", ".join(story)


def test_partitions_move_under_load_and_under_kills_without_losing_a_record(cluster, tmp_path):
    """CT-14, CT-15, CT-16, CT-17."""
    with load_on(cluster, tmp_path) as load:
        asyncio.run(_add_ballast(cluster.bootstrap, load.notes.history))
        load.goes_on(asyncio.run(_move_about(cluster, random.Random(SEED))))
        load.ends_honest()
    placed = {
        TopicPartition(topic.topic, state.partition): set(state.replicas)
        for topic in cluster.metadata().topics
        if topic.topic in TOPICS
        for state in topic.partitions
    }
    homes = {p: {b: cluster.data_directory(b) / str(p) for b in BROKERS} for p in placed}
    for partition, replicas in placed.items():  # some have yet to hear that one is not theirs any more
        held_by = homes[partition]
        until(lambda: {b for b in BROKERS if held_by[b].exists()} == replicas, f"{partition} at {replicas}")  # noqa: B023
    require_same_records({p: [homes[p][b] for b in replicas] for p, replicas in placed.items()})
