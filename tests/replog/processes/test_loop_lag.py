"""A thousand partitions are made, written, lose a broker, get it back and are deleted: no step of a loop is long.

A machine that others use too stretches every step, so what counts is the CPU time of those that took 50 ms or more,
besides the interpreter's own collections of garbage; and every wait for a disk, however fast the disk is here.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from replog.client import Admin, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.server.slow_steps import SLOW_S

pytestmark = pytest.mark.processes

PARTITIONS = 1000
VICTIM = 2
LIMIT_S = 180.0  # of each wait; a quiet machine needs seconds
TELLS_OF_WAITS = Path(__file__).parent / "disk_waits"
WAIT = "a wait for the disk"
IN_A_START = {"replog.log.directories.identity._create", "replog.server.controller.process.controller_server"}


async def _write_everywhere(producer: Producer) -> None:
    deliveries = [await producer.send("many", b"value", partition=partition) for partition in range(PARTITIONS)]
    await asyncio.gather(*deliveries)


async def _life_of_a_topic(cluster: LocalCluster) -> None:
    patient = int(1000 * LIMIT_S)
    async with Admin(cluster.bootstrap, timeout_ms=patient) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("many", partitions=PARTITIONS, replication_factor=3)
        await asyncio.to_thread(cluster.wait_for_full_isr, "many", LIMIT_S)
        await _write_everywhere(producer)
        writing = asyncio.create_task(_write_everywhere(producer))
        await asyncio.to_thread(cluster.kill, VICTIM)
        await writing
        await _write_everywhere(producer)
        await asyncio.to_thread(cluster.start, VICTIM, LIMIT_S)
        await asyncio.to_thread(cluster.wait_for_full_isr, "many", LIMIT_S)
        await admin.delete_topic("many")
        async with asyncio.timeout(LIMIT_S):
            while any(_replicas(cluster, broker.node_id) for broker in cluster.state.brokers):
                await asyncio.sleep(0.1)


def _replicas(cluster: LocalCluster, broker_id: int) -> list[Path]:
    return [path for path in cluster.data_directory(broker_id).glob("many-*") if not path.name.endswith("-delete")]


def _told(path: Path, event: str) -> list[dict[str, Any]]:
    """What the process told of itself, its earlier incarnations too."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if line["event"] == event]


def test_no_step_of_any_process_takes_long_while_a_thousand_partitions_come_move_and_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TELLS_OF_WAITS))
    with LocalCluster(tmp_path, brokers=3) as cluster:
        asyncio.run(_life_of_a_topic(cluster))
        logs = {member.name: cluster.log_file(member) for member in cluster.state.members}
    steps_of = {name: _told(path, "slow step") for name, path in logs.items()}
    print(json.dumps(steps_of, indent=1))
    slow = [
        (name, step)
        for name, steps in steps_of.items()
        for step in steps
        if step["cpu_ms"] - step["collecting_ms"] >= 1000 * SLOW_S
    ]
    assert not slow
    waits = [(name, wait["for"], wait["callers"]) for name, path in logs.items() for wait in _told(path, WAIT)]
    later = [wait for wait in waits if not IN_A_START & set(wait[2])]
    assert waits, "every start tells of some"
    assert not later
