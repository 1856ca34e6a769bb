"""A broker that loses only its controller, and clients that know no other: as real processes with a real cut link."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, Producer
from replog.client.metadata import STALE_MS
from replog.local_cluster import probe
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import HOST, free_port
from replog.local_cluster.processes import send_signal, spawn, wait_until_stopped
from replog.topic import TopicPartition
from tests.replog.client.conftest import read
from tests.replog.processes.proxy import Proxy, proxy_to
from tests.replog.secure import broker_certificate

pytestmark = pytest.mark.processes

BYSTANDER = 9
LONGER_S = 15.0  # than one that knows other brokers: two or three looks for a new leader, on a busy machine
TOO_LONG_MS = 60_000  # in place of `STALE_MS`, for which nobody waits
PATIENCE_S = 120.0
BEFORE, AFTER = 20, 100  # records that are acknowledged before the leader is killed, and after it


@asynccontextmanager
async def bystander_of(local: LocalCluster, directory: Path) -> AsyncIterator[tuple[str, Proxy]]:
    """A third broker, which hosts nothing: its address, and its link to the controller."""
    async with proxy_to(local.state.controller.address) as link:
        address = f"{HOST}:{free_port([])}"
        path = directory / "broker.properties"
        settings = {
            "node.id": BYSTANDER,
            "listeners": address,
            "controller.listener": link.address,
            "log.dirs": directory / "data",
            **broker_certificate(local, BYSTANDER),
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        process = spawn(["-m", "replog.cli", "broker", "--config", str(path)], directory / "broker.log")
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not await asyncio.to_thread(probe.is_serving, address, local.tls):
                    await asyncio.sleep(0.1)
            yield address, link
        finally:
            send_signal(process, 9)
            await asyncio.to_thread(wait_until_stopped, [process], 10.0)


async def _acknowledged(producer: Producer, since: float) -> float:
    """How long after `since` the next record is acknowledged."""
    await (await producer.send("t", b"after"))
    return time.monotonic() - since


async def test_a_leader_dies_and_clients_that_know_only_the_bystander_go_on_as_the_others_do(tmp_path, monkeypatch):
    topic = TopicPartition("t", 0)
    local = LocalCluster(tmp_path / "cluster", brokers=2)
    await asyncio.to_thread(local.up)
    (tmp_path / "bystander").mkdir()
    try:
        async with (
            bystander_of(local, tmp_path / "bystander") as (address, link),
            Admin(address) as admin,
            Producer(address) as producer,
            Producer(local.bootstrap) as informed,
            Consumer(address, auto_offset_reset="earliest") as consumer,
        ):
            await admin.create_topic("t", assignment=[[1, 2]], configs={"min.insync.replicas": "1"})
            consumer.assign([topic])
            for _ in range(BEFORE):
                await (await producer.send("t", b"before"))
                await (await informed.send("t", b"before"))
            link.cut()
            await asyncio.to_thread(local.kill, 1)
            killed = time.monotonic()
            monkeypatch.setattr("replog.client.metadata.STALE_MS", TOO_LONG_MS)
            async with asyncio.timeout(PATIENCE_S), Producer(address) as newcomer:
                informed_s, silent_s, later_s = await asyncio.gather(
                    *(_acknowledged(p, killed) for p in (informed, producer, newcomer))
                )
                monkeypatch.undo()
                for _ in range(AFTER):
                    await (await producer.send("t", b"after"))
                await read(consumer, 2 * BEFORE + AFTER + 3, PATIENCE_S)
                while (
                    view := await asyncio.to_thread(probe.metadata_of, address, tls=local.tls)
                ).controller_heard_ms_ago <= STALE_MS:
                    await asyncio.sleep(0.1)  # until then the link is the controller's address to the admin, too
                await admin.create_topic("made-meanwhile", assignment=[[2]])
            assert [partition.leader for t in view.topics for partition in t.partitions] == [1], "it is no bystander"
            print(
                f"the producer was silent for {silent_s:.1f} s, the one that came later for {later_s:.1f} s, the one "
                f"that knows others for {informed_s:.1f} s"
            )
            assert max(silent_s, later_s) < informed_s + LONGER_S
    finally:
        await asyncio.to_thread(local.down)
