"""The client of `make chaos` on a local cluster: it writes and reads without a pause while a test hurts the cluster."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from replog.chaos.client import ASSIGNED, PARTITIONS, TOPICS, Gathered
from replog.chaos.verdict import drain, require_honest, waiting_since
from replog.client import SyncAdmin
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition
from tests.replog.waiting import until

CLIENT = "client-1"
PACE_S = 0.005
IN_SYNC_S = 120.0
LINES = 15  # of each process's log, where the load is not served
STOP_S = 150.0  # a producer may flush for as long as a delivery may take


def leader_of(cluster: LocalCluster, partition: TopicPartition) -> int:
    topic = next(topic for topic in cluster.metadata().topics if topic.topic == partition.topic)
    return next(int(state.leader) for state in topic.partitions if state.partition == partition.partition)


class Load:
    """A client process and its notes."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._cluster = cluster
        self.notes = Gathered(directory)
        notes = str(directory / f"{CLIENT}.notes")
        command = [sys.executable, "-m", "replog.chaos.client", CLIENT, cluster.bootstrap, notes, str(PACE_S)]
        self.process = subprocess.Popen(command)

    def serves(self, when: str, timeout_s: float = IN_SYNC_S) -> None:
        """From now on each partition acknowledges another record, and more of it is read."""
        self.notes.gather()
        since, before = time.monotonic(), dict(self.notes.positions.get(CLIENT, {}))

        def served() -> bool:
            assert self.process.poll() is None, f"the client has ended, {when}: {self._story(since, before)}"
            self.notes.gather()
            now = self.notes.positions.get(CLIENT, {})
            return not waiting_since(self.notes, CLIENT, since) and all(now[p] > before.get(p, 0) for p in ASSIGNED)

        until(served, lambda: f"served {when}: {self._story(since, before)}", timeout_s)

    def _story(self, since: float, before: dict[TopicPartition, int]) -> str:
        """What was sent, acknowledged and read since then."""
        sends, acknowledged = self.notes.history.sends, self.notes.acknowledged_at.get(CLIENT, {})
        now = self.notes.positions.get(CLIENT, {})
        lines = [
            f"exit status {self.process.poll()}; {len(self.notes.history.acknowledgements)} of {len(sends)} records"
        ]
        for p in ASSIGNED:
            sent = f"{acknowledged[p] - since:.1f} s" if p in acknowledged else "never"
            lines.append(f"{p}: what was acknowledged last was sent at {sent}; read {before.get(p)} to {now.get(p)}")
        for member in self._cluster.state.members:
            lines += [f"{member.name}:", *self._cluster.log_file(member).read_text().splitlines()[-LINES:]]
        return "\n".join(lines)

    def goes_on(self, story: str) -> None:
        """Every replica comes in sync, and clients are served."""
        began = time.monotonic()
        self._cluster.wait_for_full_isr(None, IN_SYNC_S)
        print(f"{story}; in sync again {time.monotonic() - began:.1f} s later")
        self.serves(f"after: {story}")

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
    with SyncAdmin(cluster.bootstrap) as admin:
        for topic, configs in TOPICS.items():
            admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3, configs=configs)
    cluster.wait_for_full_isr()
    load = Load(cluster, directory)
    try:
        load.goes_on("its start")
        yield load
    finally:
        load.process.kill()
        load.process.wait(STOP_S)
