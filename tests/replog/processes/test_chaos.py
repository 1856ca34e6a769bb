"""Killed brokers, zombies, a dead controller, two dead brokers, deaths during recovery, a rolling restart, and moves
that are redirected, cancelled and hit by kills, all under load: no history but an honest one.

A producer sends with acks=all and a consumer reads, both without a pause, while the faults below come in an order and
with delays that the seed decides. Afterwards: every acknowledged record is readable at its offset and nowhere else,
nobody ever saw another value there, no reader and no end offset went backwards, every replica came back in sync, and
the stopped replicas are the same bytes, indexes included (INV-11, INV-17, INV-18). While one leader is dead, or hangs
with its connections open, clients go on within seconds.
"""

import asyncio
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replog.chaos.client import ASSIGNED, TOPICS
from replog.client import Producer, SyncAdmin
from replog.errors import ReplogError
from replog.local_cluster.cluster_file import LocalMember
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import ProcessState, send_signal, terminate, wait_until_stopped
from replog.metadata.values import NO_LEADER
from replog.simulator.history import History, ProducerSend
from replog.topic import TopicPartition
from tests.replog.processes.load import IN_SYNC_S, Load, leader_of, load_on
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

SEED = 4
SILENCE_S = 28.0  # then a client would have waited for a request's timeout, which is 30 s
SESSION_S = 3.0  # broker.session.timeout.ms of a local cluster
COMPARED = (".log", ".index", ".timeindex", ".digest")
BROKERS = (1, 2, 3, 4)
STEPS = 12
BALLAST = 60  # records of a partition that make copying take its time
BALLAST_BYTES = 90_000

Fault = Callable[[LocalCluster, Load, random.Random], str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("four"), brokers=len(BROKERS)) as running:
        yield running


def _kill(member: LocalMember) -> None:
    process = member.process
    assert process is not None
    assert send_signal(process, signal.SIGKILL), f"{member.name} is gone already"
    assert not wait_until_stopped([process], 60.0), f"{member.name} outlived SIGKILL"


def _kill_a_leader(cluster: LocalCluster, load: Load, rng: random.Random) -> str:
    broker = leader_of(cluster, rng.choice(ASSIGNED))
    cluster.kill(broker)
    load.serves(f"while broker {broker} is dead", SILENCE_S)
    return f"leader {broker} killed, and clients went on without it"


def _pause_a_leader_until_it_is_deposed(cluster: LocalCluster, load: Load, rng: random.Random) -> str:
    partition = rng.choice(ASSIGNED)
    broker, paused_at = leader_of(cluster, partition), time.monotonic()
    cluster.pause(broker)
    until(lambda: leader_of(cluster, partition) not in (broker, NO_LEADER), f"another leader of {partition}")
    deposed_s = time.monotonic() - paused_at
    load.serves(f"while broker {broker} hangs", SILENCE_S)
    cluster.resume(broker)
    return f"leader {broker} paused, deposed after {deposed_s:.2f} s, and clients went on without it"


def _two_brokers(how: str, held_s: tuple[float, float]) -> Fault:
    """They are killed, or paused and resumed, one soon after the other."""

    def fault(cluster: LocalCluster, _: Load, rng: random.Random) -> str:
        hurt, (first, second) = getattr(cluster, how), rng.sample(BROKERS, 2)
        between_s, seconds = rng.uniform(0.0, 1.0), rng.uniform(*held_s)
        hurt(first)
        time.sleep(between_s)
        hurt(second)
        time.sleep(seconds)
        for broker in (first, second) if how == "pause" else ():
            cluster.resume(broker)
        return f"{how} broker {first} and, {between_s:.2f} s later, {second} for {seconds:.2f} s"

    return fault


def _kill_the_controller_and_a_broker(cluster: LocalCluster, _: Load, rng: random.Random) -> str:
    broker, between_s = rng.choice(BROKERS), rng.uniform(0.0, 1.0)
    _kill(cluster.state.controller)
    time.sleep(between_s)
    cluster.kill(broker)
    return f"controller and, {between_s:.2f} s later, broker {broker} killed"


def _kill_a_broker_again_while_it_recovers(cluster: LocalCluster, _: Load, rng: random.Random) -> str:
    broker, after_s = leader_of(cluster, rng.choice(ASSIGNED)), rng.uniform(0.1, 0.8)
    cluster.kill(broker)
    failures: list[ReplogError] = []

    def start() -> None:
        try:
            cluster.up()
        except ReplogError as error:
            failures.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    until(lambda: cluster.state.broker(broker).state is ProcessState.RUNNING, f"a start of broker {broker}")
    time.sleep(after_s)
    _kill(cluster.state.broker(broker))
    starting.join()  # without a failure on a fast machine: it was up by then
    assert all(f"broker-{broker} ended" in failure.message for failure in failures), failures
    return f"broker {broker} killed, and again {after_s:.2f} s after its start"


def _stop_a_broker_and_kill_another(cluster: LocalCluster, _: Load, rng: random.Random) -> str:
    stopped, killed = rng.sample(BROKERS, 2)
    process = cluster.state.broker(stopped).process
    assert process is not None
    terminate(process)
    cluster.kill(killed)
    assert not wait_until_stopped([process], 60.0), f"broker {stopped} does not stop"
    return f"broker {stopped} asked to stop, broker {killed} killed meanwhile"


def _restart_every_process_in_order(cluster: LocalCluster, _: Load, __: random.Random) -> str:
    before = {member.name: member.process for member in cluster.state.members}
    command = [sys.executable, "-m", "replog.cli", "cluster", "rolling-restart", "--directory", cluster.directory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not {member.process for member in cluster.state.members} & set(before.values())
    assert re.findall(r"^restarting (.*)$", done.stderr, re.M) == list(before)
    return "every process restarted, one after the other"


FAULTS: list[Fault] = [
    _kill_a_leader,
    _pause_a_leader_until_it_is_deposed,
    _two_brokers("pause", (SESSION_S + 0.2, SESSION_S + 1.0)),
    _kill_the_controller_and_a_broker,
    _two_brokers("kill", (0.0, SESSION_S)),
    _kill_a_broker_again_while_it_recovers,
    _stop_a_broker_and_kill_another,
    _restart_every_process_in_order,
]


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


def _move_about(cluster: LocalCluster, _: Load, rng: random.Random) -> str:
    """Moves, redirections, cancels and kills by chance, until nothing moves any more."""
    story = []
    with SyncAdmin(cluster.bootstrap) as admin:
        for _step in range(STEPS):
            partition = rng.choice(ASSIGNED)
            target = None if rng.random() < 0.25 else rng.sample(BROKERS, rng.choice([2, 3, 3]))
            (error,) = admin.alter_partition_reassignments({partition: target}).values()
            story.append(f"{partition} to {target}{f' refused: {error.code.name}' if error else ''}")
            time.sleep(rng.uniform(0.0, 0.15))
            if rng.random() < 0.4:
                broker = rng.choice(BROKERS)
                cluster.kill(broker)
                time.sleep(rng.uniform(0.0, 0.3))
                cluster.start(broker)
                story.append(f"{broker} killed and started")
        until(lambda: not admin.list_partition_reassignments(), "the end of all moves")
    return ", ".join(story)


def _files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if path.suffix in COMPARED}


def _differences(replicas: dict[int, dict[str, bytes]]) -> list[str]:
    return [
        f"{name}: { ({broker: len(held[name]) if name in held else None for broker, held in replicas.items()}) } bytes"
        for name in sorted(set().union(*replicas.values()))
        if len({held.get(name) for held in replicas.values()}) > 1
    ]


def test_deaths_zombies_and_moves_leave_an_honest_history_and_identical_replicas(cluster, tmp_path):
    """CT-14, CT-15, CT-16, CT-17: replicas end where they were sent."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with load_on(cluster, tmp_path) as load:
        asyncio.run(_add_ballast(cluster.bootstrap, load.notes.history))
        for fault in (*rng.sample(FAULTS, len(FAULTS)), _move_about):
            story = fault(cluster, load, rng)
            cluster.up(IN_SYNC_S)
            load.goes_on(story)
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
    assert cluster.down() == []
    files = {p: {broker: _files(homes[p][broker]) for broker in replicas} for p, replicas in placed.items()}
    assert not [told for of_partition in files.values() for told in _differences(of_partition)]
    logs = [
        name for of_partition in files.values() for held in of_partition.values() for name in held if ".log" in name
    ]
    assert len(logs) > sum(map(len, placed.values())), "no segment was rolled"
