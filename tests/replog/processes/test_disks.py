"""Disks that are full, and one that comes back empty: a replica gives way, the cluster goes on, and nothing is lost."""

import asyncio
import resource
import shutil

import pytest

from replog.client import Admin, Producer, SyncAdmin, SyncConsumer, SyncProducer
from replog.demo.traffic import read_back
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

COUNT = 400
VALUE = b"x" * 1000
RECORDS = 200


async def test_a_replica_that_can_write_no_more_gives_way_and_rejoins(cluster):
    """By RLIMIT_FSIZE: the kernel refuses, in the middle of a batch, to let a file grow. The broker goes on (D57)."""
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
    logs = {(cluster.data_directory(broker) / "filling-0" / f"{0:020d}.log").read_bytes() for broker in (1, 2, 3)}
    assert len(logs) == 1


def test_an_empty_disk_waits_for_the_others_and_all_records_are_there(cluster, replog):
    """All brokers are killed, and the disk of the one that led last comes back empty (CT-29, CT-30)."""
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topic("t", assignment=[[1, 2, 3]])
    with SyncProducer(cluster.bootstrap) as producer:
        producer.send_many("t", [b"acknowledged"] * RECORDS)
    with SyncAdmin(cluster.state.brokers[0].address) as admin:
        for broker, left in ((2, (1, 3)), (3, (1,))):
            cluster.kill(broker)
            until(lambda left=left: admin.describe_topic("t").partitions[0].isr == left, f"broker {broker} left")
    cluster.kill(1)
    shutil.rmtree(cluster.data_directory(1))
    cluster.data_directory(1).mkdir()
    cluster.start(1)
    cluster.start(2)
    bootstrap = ["--bootstrap-server", cluster.state.brokers[0].address]
    unclean = replog("partition", "elect", "--topic", "t", "--election-type", "unclean", *bootstrap)
    for words in (
        "broker 1: does not find it; if a disk is not mounted",
        f"broker 2: up to offset {RECORDS}",
        "broker 3, not alive: has not said how far it goes",
        "broker 2 would be elected; lost would be what may be on a disk of broker 1 that is not there, and what only",
    ):
        assert words in unclean.stderr, unclean
    cluster.start(3)
    cluster.wait_for_full_isr()
    with SyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        got = []
        while len(got) < RECORDS and (records := consumer.fetch(timeout_s=60)):
            got += records
    assert len(got) == RECORDS
    log = cluster.log_file(cluster.state.controller).read_text()
    assert "unclean leader elections" in log, "the log says that it was an election by evidence"
