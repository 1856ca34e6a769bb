"""A replica that can write no more gives way, the cluster goes on, and it comes back with nothing half-written."""

import asyncio
import resource

import pytest

from replog.client import Admin, Producer
from replog.demo.traffic import read_back
from replog.local_cluster.local_cluster import LocalCluster

COUNT = 400
VALUE = b"x" * 1000


@pytest.mark.processes
async def test_a_replica_that_can_write_no_more_gives_way_and_rejoins(tmp_path):
    """By RLIMIT_FSIZE: the kernel refuses, in the middle of a batch, to let a file grow. The broker goes on (D57)."""
    with LocalCluster(tmp_path) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic("filling", partitions=1, replication_factor=3)
            full = (await admin.describe_topic("filling")).partitions[0].leader
        member = cluster.state.broker(full)
        assert member.pid is not None
        resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (100_500, resource.RLIM_INFINITY))
        async with Producer(cluster.bootstrap, batch_size=8000) as producer:
            deliveries = [await producer.send("filling", VALUE + b"%d" % number) for number in range(COUNT)]
            offsets = [(await delivery).offset for delivery in deliveries]
        last_words = cluster.log_file(member).read_text()
        assert "replica offline, to be tried again" in last_words
        assert "File too large; this process may write no larger files; raise that limit" in last_words, last_words
        resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await asyncio.to_thread(cluster.wait_for_full_isr, "filling")
        read = {offset: value for _, offset, value in await read_back(cluster.bootstrap, "filling", 1, lambda _: None)}
        assert {offset: read[offset] for offset in offsets} == {
            offset: VALUE + b"%d" % number for number, offset in enumerate(offsets)
        }
        directories = [cluster.data_directory(broker) / "filling-0" for broker in (1, 2, 3)]
    logs = [(directory / f"{0:020d}.log").read_bytes() for directory in directories]
    assert logs[0] == logs[1] == logs[2]
