"""The controller's store is put back from an older copy, or made again: nobody follows it, nothing is lost (CT-24)."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.client import Admin, Producer
from replog.demo.traffic import read_back
from replog.local_cluster import probe
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import terminate, wait_until_stopped
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

COUNT = 5_000
STORE = "metadata.sqlite*"
REFUSED = "nothing is taken from this controller"


class Cluster(LocalCluster):
    """One whose store and processes are handled one by one."""

    @property
    def store(self) -> Path:
        return self.directory / "controller" / "data"

    def controller_log(self) -> str:
        return self.log_file(self.state.controller).read_text()

    def broker_log(self, broker_id: int) -> str:
        return self.log_file(self.state.broker(broker_id)).read_text()

    def copy_store(self, name: str) -> Path:
        copy = self.directory / name
        copy.mkdir()
        for path in self.store.glob(STORE):
            shutil.copy(path, copy)
        return copy

    def put_back(self, copy: Path) -> None:
        for path in self.store.glob(STORE):
            path.unlink()
        for path in copy.glob(STORE):
            shutil.copy(path, self.store)

    def stop(self, *names: str) -> None:
        processes = [member.process for member in self.state.members if member.name in names and member.process]
        for process in processes:
            terminate(process)
        assert not wait_until_stopped(processes, 60)

    @contextmanager
    def running(self, *names: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        """As their files say, without the patience of `up`; stopped at the end."""
        processes = {}
        try:
            for name in names:
                kind, home = name.partition("-")[0], self.directory / name
                command = [sys.executable, "-m", "replog.cli", kind, "--config", home / f"{kind}.properties"]
                with (home / f"{kind}.log").open("ab") as log:
                    processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            yield processes
        finally:
            for process in processes.values():
                process.terminate()
            for process in processes.values():
                process.wait(60)


async def filled(bootstrap: str, topic: str, count: int) -> None:
    async with Producer(bootstrap) as producer:
        for delivery in [await producer.send(topic, b"%d" % number) for number in range(count)]:
            await delivery


async def count(cluster: Cluster, topic: str) -> int:
    return len(await read_back(cluster.bootstrap, topic, 1, lambda _: None))


async def test_an_older_copy_of_the_store_elects_nobody_and_every_acknowledged_record_stays(tmp_path):
    """The story of issue 15: the stale leader led, the others truncated, and `status` was green."""
    cluster = Cluster(tmp_path, brokers=3)
    brokers = [f"broker-{n}" for n in (1, 2, 3)]
    with cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic("t", partitions=1, replication_factor=3)
            await filled(cluster.bootstrap, "t", 1)
            stale = (await admin.describe_topic("t")).partitions[0].leader
        older = cluster.copy_store("older")
        await asyncio.to_thread(cluster.stop, f"broker-{stale}")
        await filled(cluster.bootstrap, "t", COUNT)
    newest = cluster.copy_store("newest")
    cluster.put_back(older)
    with cluster.running("controller", *brokers) as processes:
        informed = [n for n in (1, 2, 3) if n != stale]
        until(lambda: all(REFUSED in cluster.broker_log(n) for n in informed), "a refusal by the others")
        until(
            lambda: not probe.is_serving(cluster.state.controller.address, cluster.tls),
            "a controller that says it cannot serve",
        )
        assert "nothing is decided any more" in cluster.controller_log()
        for told in (cluster.controller_log(), cluster.broker_log(informed[0])):
            assert "older copy" in told
            assert "replog controller restore" in told, "what to do"
        assert [process.poll() for process in processes.values()] == [None] * 4, "nobody gave up"
        assert not any(probe.is_serving(cluster.state.broker(n).address, cluster.tls) for n in informed)
    cluster.put_back(newest)
    with cluster:
        await asyncio.to_thread(cluster.wait_for_full_isr, "t")
        assert await count(cluster, "t") == COUNT + 1
