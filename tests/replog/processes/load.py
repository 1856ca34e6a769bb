"""The client of `make chaos` on a local cluster: it writes and reads without a pause while a test hurts the cluster."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from replog.chaos.client import ASSIGNED, PARTITIONS, TOPICS
from replog.chaos.notes import Gathered
from replog.chaos.verdict import drain, require_honest, waiting_since
from replog.client import Admin
from replog.local_cluster.local_cluster import LocalCluster

CLIENT = "client-1"
PACE_S = 0.005
IN_SYNC_S = 120.0
STOP_S = 150.0  # a producer may flush for as long as a delivery may take


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + IN_SYNC_S
    while not done():
        assert time.monotonic() < deadline, f"not within {IN_SYNC_S:g} s: {what}"
        time.sleep(0.05)


class Load:
    """A client process and its notes."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._cluster = cluster
        self.notes = Gathered(directory)
        notes = str(directory / f"{CLIENT}.notes")
        command = [sys.executable, "-m", "replog.chaos.client", CLIENT, cluster.bootstrap, notes, str(PACE_S)]
        self.process = subprocess.Popen(command)

    def goes_on(self, story: str) -> None:
        """Every replica comes in sync; then each partition acknowledges a record that was sent later, and is read."""
        began = time.monotonic()
        self._cluster.wait_for_full_isr(None, IN_SYNC_S)
        self.notes.gather()
        since, before = time.monotonic(), dict(self.notes.positions.get(CLIENT, {}))

        def served() -> bool:
            self.notes.gather()
            now = self.notes.positions.get(CLIENT, {})
            return not waiting_since(self.notes, CLIENT, since) and all(now[p] > before.get(p, 0) for p in ASSIGNED)

        until(served, f"records acknowledged and read on every partition after: {story}")
        assert self.process.poll() is None, story
        print(f"{story}; in sync again {since - began:.1f} s later")

    def ends_honest(self) -> None:
        """Every record was acknowledged, and what clients saw has no contradiction (INV-11, INV-17, INV-18)."""
        self.process.terminate()
        assert self.process.wait(STOP_S) == 0
        self.notes.gather()
        history = self.notes.history
        assert len(history.sends) == len(history.acknowledgements) > 0
        asyncio.run(drain(self._cluster.bootstrap, history))
        require_honest(history)


@contextlib.contextmanager
def load_on(cluster: LocalCluster, directory: Path) -> Iterator[Load]:
    async def make_topics() -> None:
        async with Admin(cluster.bootstrap) as admin:
            for topic, configs in TOPICS.items():
                await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3, configs=configs)

    asyncio.run(make_topics())
    cluster.wait_for_full_isr()
    load = Load(cluster, directory)
    try:
        load.goes_on("its start")
        yield load
    finally:
        load.process.kill()
        load.process.wait(STOP_S)
