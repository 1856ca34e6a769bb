"""A consumer reads old records from a slow disk, and nobody else waits for that (divergence 34).

The disk is a file system in a file, which the kernel's block layer slows down as it is told (cgroups); that takes root.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.chaos.volume import Volume
from replog.client import Admin, Consumer, Producer, Record
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.tail import FILE_BYTES
from replog.topic import TopicPartition
from tests.replog.client.conftest import read
from tests.replog.log.eviction import evict

pytestmark = pytest.mark.processes

THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")
BYTES_A_SECOND = 400_000
OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
VALUE = os.urandom(50_000)
COUNT = 60  # 3 MB, some seven seconds of that disk
NEWER = FILE_BYTES // len(VALUE) + 1  # which the broker keeps in memory
WAIT_S = 120.0


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    if os.geteuid() != 0 or not THROTTLE.exists():
        pytest.skip("a disk is made slow by root alone, and by cgroups of version 1")
    try:
        made = Volume(tmp_path / "image", tmp_path / "disk")
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        yield made
    finally:
        made.unmount()


@contextmanager
def slow(volume: Volume) -> Iterator[None]:
    device = os.stat(volume.path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    THROTTLE.write_text(f"{name} {BYTES_A_SECOND}")
    try:
        yield
    finally:
        THROTTLE.write_text(f"{name} 0")


async def _rounds(producer: Producer, consumer: Consumer, until: "asyncio.Task[list[Record]]") -> list[float]:
    """How long each record took to be written and read, one after the other, until then."""
    loop, took = asyncio.get_running_loop(), list[float]()
    while not until.done():
        began = loop.time()
        await (await producer.send("new", b"%d" % len(took)))
        while not await consumer.fetch(WAIT_S):
            pass
        took.append(loop.time() - began)
    return took


async def test_a_small_answer_does_not_wait_for_a_cold_read_of_a_slow_disk(tmp_path, volume):
    with LocalCluster(volume.path / "cluster", brokers=1) as cluster:
        async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap, linger_ms=0) as producer:
            for topic in ("old", "new"):
                await admin.create_topic(topic, partitions=1, replication_factor=1)
            await asyncio.gather(*[await producer.send("old", VALUE) for _ in range(COUNT + NEWER)])
            async with (
                Consumer(cluster.bootstrap, auto_offset_reset="earliest") as old,
                Consumer(cluster.bootstrap, auto_offset_reset="earliest") as new,
            ):
                old.assign([OLD])
                new.assign([NEW])
                evict(*(cluster.data_directory(1) / "old-0").glob("*.log"))
                with slow(volume):
                    reading = asyncio.create_task(read(old, COUNT, WAIT_S))
                    took = await _rounds(producer, new, reading)
                    assert [record.value for record in await reading][:COUNT] == [VALUE] * COUNT
    took.sort()
    print(f"{len(took)} records, the slowest {took[-1]:.3f} s, the middle one {took[len(took) // 2]:.3f} s")
    assert len(took) > 20, "they went on while the old ones were read"
    assert took[len(took) // 2] < 0.25, "a piece of 1 MiB takes more than two seconds"
