"""Zombies, a dead controller, two dead brokers, deaths during recovery, under load: no history but an honest one.

What `test_kill.py` (one broker killed at a time) leaves out. Producers send with acks=all and a consumer reads, both
without a pause, while the faults below come in an order and with delays that the seed decides. Afterwards:
every acknowledged record is readable at its offset and nowhere else, nobody ever saw another value there, no reader and
no end offset went backwards, every replica came back in sync, and the stopped replicas are the same bytes, indexes
included (INV-11, INV-17, INV-18).
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from replog.client import Admin, Consumer, Delivery, Producer
from replog.demo.traffic import read_back
from replog.errors import ReplogError
from replog.local_cluster.cluster_file import LocalMember
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import ProcessState, send_signal, terminate, wait_until_stopped
from replog.metadata.values import NO_LEADER
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import Drained, History, Latest, Poll, ProducerSend, Read
from replog.topic import TopicPartition

pytestmark = pytest.mark.processes

SEED = 4
PARTITIONS = 2
TOPICS = {"steady": {}, "rolling": {"segment.bytes": "20000", "index.interval.bytes": "300"}}
ASSIGNED = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
PACE_S = 0.01
IN_SYNC_S = 120.0
SESSION_S = 3.0  # broker.session.timeout.ms of a local cluster
COMPARED = (".log", ".index", ".timeindex", ".digest")

Fault = Callable[[LocalCluster, random.Random], Awaitable[str]]


class Watched:
    """The history of the clients, and what the test waits for."""

    def __init__(self) -> None:
        self.history = History()
        self.last_sent_at: dict[TopicPartition, float] = {}  # of the last acknowledged record
        self.positions = dict.fromkeys(ASSIGNED, 0)  # of the consumer

    @property
    def unanswered(self) -> int:
        return len(self.history.sends) - len(self.history.acknowledgements)


async def _produce(bootstrap: str, watched: Watched, stopped: asyncio.Event) -> None:
    """Send until told to stop; every record must be acknowledged."""

    async def note(partition: TopicPartition, sent: asyncio.Queue[tuple[ProducerSend, Delivery] | None]) -> None:
        while (record := await sent.get()) is not None:
            send, delivery = record
            watched.history.acknowledged(send, await delivery, time.monotonic())
            watched.last_sent_at[partition] = send.invoked_s

    history, queues = watched.history, {}
    async with Producer(bootstrap, linger_ms=2) as producer, asyncio.TaskGroup() as notes:
        for partition in ASSIGNED:
            queues[partition] = asyncio.Queue[tuple[ProducerSend, Delivery] | None]()
            notes.create_task(note(partition, queues[partition]))
        while not stopped.is_set():
            for partition, queue in queues.items():
                value = b"%s %d" % (str(partition).encode(), len(history.sends))
                send = ProducerSend("producer", partition, value, -1, idempotent=True, invoked_s=time.monotonic())
                history.sends.append(send)
                queue.put_nowait((send, await producer.send(partition.topic, value, partition=partition.partition)))
            await asyncio.sleep(PACE_S)
        for queue in queues.values():
            queue.put_nowait(None)


async def _consume(bootstrap: str, watched: Watched) -> None:
    """One consumer, never seeking: each offset once, in order, without a gap."""
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(ASSIGNED)
        while True:
            invoked_s = time.monotonic()
            reads = tuple(
                Read(TopicPartition(record.topic, record.partition), record.offset, record.value or b"")
                for record in await consumer.fetch()
            )
            watched.history.reads.append(Poll("consumer", reads, invoked_s, time.monotonic()))
            for read in reads:
                watched.positions[read.partition] = read.offset + 1


async def _watch_ends(bootstrap: str, watched: Watched) -> None:
    async with Consumer(bootstrap) as consumer:
        while True:
            invoked_s = time.monotonic()
            for partition, offset in (await consumer.end_offsets(ASSIGNED, 60.0)).items():
                watched.history.latest.append(Latest("watcher", partition, offset, invoked_s, time.monotonic()))
            await asyncio.sleep(0.2)


async def _drain(bootstrap: str, history: History) -> None:
    """What a fresh consumer reads in the end."""
    for topic in TOPICS:
        readable = await read_back(bootstrap, topic, PARTITIONS, lambda _: None)
        for number in range(PARTITIONS):
            partition = TopicPartition(topic, number)
            records = tuple((offset, value) for held, offset, value in readable if held == number)
            history.drained[partition] = Drained(partition, 0, len(records), records)


def _signal(member: LocalMember, number: signal.Signals) -> None:
    process = member.process
    assert process is not None
    assert send_signal(process, number), f"{member.name} is gone already"
    if number is signal.SIGKILL:
        assert not wait_until_stopped([process], 60.0), f"{member.name} outlived SIGKILL"


def _leader(cluster: LocalCluster, partition: TopicPartition) -> int:
    topic = next(topic for topic in cluster.metadata().topics if topic.topic == partition.topic)
    return next(int(state.leader) for state in topic.partitions if state.partition == partition.partition)


async def _pause_a_leader_until_it_is_deposed(cluster: LocalCluster, chance: random.Random) -> str:
    partition, longer_s = chance.choice(ASSIGNED), chance.uniform(0.0, 2.0)
    broker, paused_at = _leader(cluster, partition), time.monotonic()
    await asyncio.to_thread(cluster.pause, broker)
    while await asyncio.to_thread(_leader, cluster, partition) in (broker, NO_LEADER):
        assert time.monotonic() < paused_at + IN_SYNC_S, f"broker {broker}, paused, leads {partition} for ever"
        await asyncio.sleep(0.1)
    deposed_s = time.monotonic() - paused_at
    await asyncio.sleep(longer_s)
    cluster.resume(broker)
    return f"leader {broker} paused, deposed after {deposed_s:.2f} s, resumed {longer_s:.2f} s later"


async def _pause_two_brokers(cluster: LocalCluster, chance: random.Random) -> str:
    first, second = chance.sample([1, 2, 3], 2)
    between_s, paused_s = chance.uniform(0.1, 1.0), SESSION_S + chance.uniform(0.2, 1.0)
    await asyncio.to_thread(cluster.pause, first)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(cluster.pause, second)
    await asyncio.sleep(paused_s)
    cluster.resume(first)
    cluster.resume(second)
    return f"brokers {first} and, {between_s:.2f} s later, {second} paused for {paused_s:.2f} s"


async def _kill_the_controller_and_a_broker(cluster: LocalCluster, chance: random.Random) -> str:
    broker, between_s = chance.choice([1, 2, 3]), chance.uniform(0.0, 1.0)
    _signal(cluster.state.controller, signal.SIGKILL)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(cluster.kill, broker)
    return f"controller and, {between_s:.2f} s later, broker {broker} killed"


async def _kill_two_brokers(cluster: LocalCluster, chance: random.Random) -> str:
    first, second = chance.sample([1, 2, 3], 2)
    between_s, down_s = chance.uniform(0.0, 1.0), chance.uniform(0.0, SESSION_S)
    await asyncio.to_thread(cluster.kill, first)
    await asyncio.sleep(between_s)
    await asyncio.to_thread(cluster.kill, second)
    await asyncio.sleep(down_s)
    return f"brokers {first} and, {between_s:.2f} s later, {second} killed, down for {down_s:.2f} s"


async def _kill_a_broker_again_while_it_recovers(cluster: LocalCluster, chance: random.Random) -> str:
    broker, after_s = _leader(cluster, chance.choice(ASSIGNED)), chance.uniform(0.1, 0.8)
    await asyncio.to_thread(cluster.kill, broker)
    starting = asyncio.create_task(asyncio.to_thread(cluster.up))
    while cluster.state.broker(broker).state is not ProcessState.RUNNING:
        await asyncio.sleep(0.01)
    await asyncio.sleep(after_s)
    _signal(cluster.state.broker(broker), signal.SIGKILL)
    told = (await asyncio.gather(starting, return_exceptions=True))[0]
    ended = isinstance(told, ReplogError) and f"broker-{broker} ended" in told.message
    assert ended or isinstance(told, LocalCluster), told  # on a fast machine it was up by then
    return f"broker {broker} killed, and again {after_s:.2f} s after its start"


async def _stop_a_broker_and_kill_another(cluster: LocalCluster, chance: random.Random) -> str:
    stopped, killed = chance.sample([1, 2, 3], 2)
    process = cluster.state.broker(stopped).process
    assert process is not None
    terminate(process)
    await asyncio.to_thread(cluster.kill, killed)
    assert not await asyncio.to_thread(wait_until_stopped, [process], 60.0), f"broker {stopped} does not stop"
    return f"broker {stopped} told to stop, broker {killed} killed meanwhile"


FAULTS: list[Fault] = [
    _pause_a_leader_until_it_is_deposed,
    _pause_two_brokers,
    _kill_the_controller_and_a_broker,
    _kill_two_brokers,
    _kill_a_broker_again_while_it_recovers,
    _stop_a_broker_and_kill_another,
]


async def _until(done: Callable[[], bool], what: str, timeout_s: float = IN_SYNC_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.05)


async def _hurt_and_mend(cluster: LocalCluster, watched: Watched, fault: Fault, chance: random.Random) -> None:
    begun = time.monotonic()
    story = await fault(cluster, chance)
    hurt = time.monotonic()
    await asyncio.to_thread(cluster.up, IN_SYNC_S)
    await asyncio.to_thread(cluster.wait_for_full_isr, None, IN_SYNC_S)
    mended = time.monotonic()
    await _until(
        lambda: all(watched.last_sent_at.get(partition, 0.0) > mended for partition in ASSIGNED),
        f"records acknowledged on every partition after: {story}",
    )
    print(f"{story}; {hurt - begun:.1f} s of it, in sync again {mended - hurt:.1f} s later")


async def _run(cluster: LocalCluster, watched: Watched, faults: list[Fault], chance: random.Random) -> None:
    async with Admin(cluster.bootstrap) as admin:
        for topic, configs in TOPICS.items():
            await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3, configs=configs)
    await asyncio.to_thread(cluster.wait_for_full_isr)
    stopped = asyncio.Event()
    producing = asyncio.create_task(_produce(cluster.bootstrap, watched, stopped))
    watching = [asyncio.create_task(watch(cluster.bootstrap, watched)) for watch in (_consume, _watch_ends)]
    try:
        for fault in faults:
            await _hurt_and_mend(cluster, watched, fault, chance)
            for task in (producing, *watching):
                assert not task.done(), task
        stopped.set()
        await producing
        assert watched.unanswered == 0
        await _drain(cluster.bootstrap, watched.history)
        for partition, drained in watched.history.drained.items():
            read_to = f"{partition} read to {drained.end_offset}"
            await _until(lambda: watched.positions[partition] >= drained.end_offset, read_to)  # noqa: B023
    finally:
        stopped.set()
        for task in (producing, *watching):
            task.cancel()
        await asyncio.gather(producing, *watching, return_exceptions=True)


def _files(cluster: LocalCluster, broker: int) -> dict[str, bytes]:
    data = cluster.data_directory(broker)
    paths = (path for partition in ASSIGNED for path in (data / str(partition)).iterdir() if path.suffix in COMPARED)
    return {str(path.relative_to(data)): path.read_bytes() for path in paths}


def _differences(files: dict[int, dict[str, bytes]]) -> list[str]:
    return [
        f"{name}: { ({broker: len(held[name]) if name in held else None for broker, held in files.items()}) } bytes"
        for name in sorted(set().union(*files.values()))
        if len({held.get(name) for held in files.values()}) > 1
    ]


def test_zombies_and_double_deaths_leave_an_honest_history_and_identical_replicas(cluster):
    chance, watched = random.Random(SEED), Watched()
    faults = chance.sample(FAULTS, len(FAULTS))
    print(f"seed {SEED}")
    asyncio.run(_run(cluster, watched, faults, chance))
    anomalies = find_anomalies(watched.history)
    assert not anomalies, "\n".join(map(str, anomalies[:20]))
    assert cluster.down() == []
    files = {broker: _files(cluster, broker) for broker in (1, 2, 3)}
    assert sum(name.endswith(".log") for name in files[1]) > len(ASSIGNED), "no segment was rolled"
    assert not _differences(files)
