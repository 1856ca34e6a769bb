"""A broker that is told to stop before it serves, when nobody will let it go, or when a disk fails meanwhile."""

import asyncio
import os
import threading

import pytest

from replog.log.directories.log_directory import LogDirectory
from replog.log.errors import LogStorageError
from replog.log.files.names import SNAPSHOT_SUFFIX, segment_file_name
from replog.log.formats.checkpoint import RECOVERY_POINT_CHECKPOINT
from replog.server.broker.broker import CONTROLLED_SHUTDOWN_TIMEOUT_S
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually


async def test_a_start_that_is_called_off_holds_its_directory_until_the_recovery_in_the_thread_is_through(
    cluster, monkeypatch
):
    begun, may_end = threading.Event(), threading.Event()

    def slow_load(*_: object) -> None:
        begun.set()
        may_end.wait(60)

    monkeypatch.setattr(LogDirectory, "load", slow_load)
    broker = cluster.new_broker(1)
    (directory,) = broker.config.log_dirs
    starting = asyncio.create_task(broker.start())
    await eventually(begun.is_set)
    starting.cancel()
    await asyncio.sleep(0.2)
    try:
        with pytest.raises(LogStorageError, match="in use"):
            LogDirectory(directory, cluster_id="", node_id=1, randbytes=os.urandom)
    finally:
        may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    cluster_id = cluster.controller.state.image.cluster_id
    LogDirectory(directory, cluster_id=cluster_id, node_id=1, randbytes=os.urandom).abandon()


async def test_a_broker_whose_id_was_taken_over_does_not_wait_for_leave_to_stop(cluster):
    """STALE_BROKER_EPOCH during the controlled shutdown: no heartbeat will ever bring the answer."""
    broker = await cluster.start_broker(1)
    broker._identity.broker_epoch -= 1
    async with asyncio.timeout(CONTROLLED_SHUTDOWN_TIMEOUT_S - 5):
        await cluster.stop_broker(1)
    assert broker.failed
    assert not (broker.config.log_dirs[0] / ".kafka_cleanshutdown").exists()


async def test_a_log_that_cannot_be_closed_does_not_keep_the_others_from_it(cluster):
    """FN-3. Logs are closed in a thread: a disk error is handled on the loop."""
    broker = await cluster.start_broker(1)
    for topic in ("t", "u"):
        await cluster.create_topic(topic, replication_factor=1)
        await cluster.produce(TopicPartition(topic, 0), batch(b"x"))
    log = cluster.log(1, TopicPartition("t", 0))
    (log.directory / segment_file_name(log.log_end_offset, SNAPSHOT_SUFFIX)).mkdir()
    with pytest.raises(LogStorageError, match=SNAPSHOT_SUFFIX):
        await cluster.stop_broker(1)
    assert broker.failed
    assert "u 0 1" in (cluster.directory / "broker-1" / RECOVERY_POINT_CHECKPOINT).read_text()
