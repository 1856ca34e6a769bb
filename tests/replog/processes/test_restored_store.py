"""The controller's store is made again from an older copy, or from disks alone: what was acknowledged is there."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from replog.client import Admin, Producer
from replog.demo.traffic import read_back
from tests.replog.processes.test_older_store import COUNT, Cluster, count, filled
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

KEYS = 7


def controller_command(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command, *others = arguments
    config = str(cluster.store.parent / "controller.properties")
    return subprocess.run(
        [sys.executable, "-m", "replog.cli", "controller", command, "--config", config, *others],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


async def values(cluster: Cluster, topic: str) -> list[bytes]:
    return [value for _, _, value in await read_back(cluster.bootstrap, topic, 1, lambda _: None)]


def log_bytes(cluster: Cluster, topic: str) -> int:
    """Of the largest replica; while files come and go, of what there was."""
    directories = [cluster.data_directory(broker_id) / f"{topic}-0" for broker_id in (1, 2, 3)]
    return max(sum(path.stat().st_size for path in each.glob("*.log") if path.exists()) for each in directories)


async def test_a_store_made_from_an_older_copy_or_from_the_disks_alone_has_every_acknowledged_record(tmp_path):
    """A topic is compacted as before: as one that is not, it was cut off at its first hole, on all replicas alike."""
    cluster = Cluster(tmp_path, brokers=3, broker_settings={"log.cleaner.backoff.ms": "50"})
    compacted = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}
    with cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic("t", partitions=1, replication_factor=3)
            await filled(cluster.bootstrap, "t", 1)
            stale = (await admin.describe_topic("t")).partitions[0].leader
            done = controller_command(cluster, "backup", "--to", str(tmp_path / "backups"))
            assert done.returncode == 0, done.stderr
            older = Path(done.stdout.strip())
            for topic in ("accounts", "idle"):
                await admin.create_topic(topic, partitions=1, configs=compacted)
            async with Producer(cluster.bootstrap) as producer:
                await producer.send("accounts", b"of the beginning", key=b"never again")
                for number in range(400):
                    await (await producer.send("accounts", b"%d" % number, key=b"%d" % (number % KEYS)))
            until(lambda: log_bytes(cluster, "accounts") < 5_000, lambda: log_bytes(cluster, "accounts"))
            latest = [b"of the beginning", *(b"%d" % number for number in range(400 - KEYS, 400))]
            await asyncio.to_thread(cluster.stop, f"broker-{stale}")
            await filled(cluster.bootstrap, "t", COUNT)
            await admin.create_topic("late", assignment=[tuple({1, 2, 3} - {stale})])
            await filled(cluster.bootstrap, "late", 100)
    replicas = [word for n in (1, 2, 3) for word in ("--replica", f"{n}={cluster.data_directory(n)}")]
    ways = (("restore", "--from-older-copy", str(older)), ("rebuild",))
    for written, way in enumerate(ways):
        refused = controller_command(cluster, *way, *replicas)
        assert refused.returncode != 0, "there is a store already"
        assert "already" in refused.stderr
        cluster.put_back(tmp_path / "nothing")
        done = controller_command(cluster, *way, *replicas)
        assert done.returncode == 0, done.stderr
        assert "topic late is " in done.stdout, "its settings are not known"
        with cluster:
            await asyncio.to_thread(cluster.wait_for_full_isr)
            assert (await count(cluster, "t"), await count(cluster, "late")) == (COUNT + 1 + written, 100)
            await filled(cluster.bootstrap, "t", 1)
            kept = await values(cluster, "accounts")
            assert [value for value in kept if value in latest] == latest, kept
            async with Admin(cluster.bootstrap) as admin:
                for topic in ("accounts", "idle"):
                    described = await admin.describe_topic(topic)
                    assert described.configs["cleanup.policy"] == "compact", topic
    assert not [path for n in (1, 2, 3) for path in cluster.data_directory(n).glob("*-stray")]
