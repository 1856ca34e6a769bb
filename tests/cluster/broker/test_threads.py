"""What runs in a thread while the broker goes on, or stops."""

import asyncio
import threading

import pytest

from cluster.broker.threads import in_thread
from replog.log.open_file import OpenFile
from replog.rpc import methods
from replog.rpc.v1 import controller_pb2
from replog.topic import TopicPartition

from .conftest import CALL_S, InProcessCluster, batch, eventually


async def test_the_result_and_the_error_come_back() -> None:
    assert await in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


async def test_a_cancellation_waits_for_the_end_of_the_work() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(60)
        ended.set()
        raise OSError("seen by nobody")

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_replica_that_is_deleted_while_it_is_flushed_costs_nothing_but_itself(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LG-17 renames the directory under the flush (LG-18); the disk has not failed."""
    begun, may_go_on = threading.Event(), threading.Event()

    sync = OpenFile.sync

    def slow_sync(file: OpenFile) -> None:
        if "doomed-0" in file.path and file.path.endswith(".log"):
            begun.set()
            assert may_go_on.wait(60)
        sync(file)

    monkeypatch.setattr(OpenFile, "sync", slow_sync)
    broker = await cluster.start_broker(1)
    await cluster.create_topic("doomed", replication_factor=1, flush_ms="1")
    await cluster.create_topic("kept", replication_factor=1, flush_ms="1")
    await cluster.produce(TopicPartition("doomed", 0), batch(b"x"))
    await eventually(begun.is_set)
    controller = cluster.channel(cluster.controller_address)
    await controller.call(methods.Controller["delete_topic"], controller_pb2.DeleteTopicRequest(topic="doomed"), CALL_S)
    await eventually(lambda: TopicPartition("doomed", 0) not in broker.manager.hosted)
    may_go_on.set()
    kept = TopicPartition("kept", 0)
    await cluster.produce(kept, batch(b"y"))
    await eventually(lambda: cluster.log(1, kept).recovery_point == 1)
    assert not broker.failed
