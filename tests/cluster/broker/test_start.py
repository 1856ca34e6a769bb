"""A broker that is told to stop before it serves, or when nobody will let it go."""

import asyncio
import os
import random
import threading

import pytest

from cluster.broker.broker import CONTROLLED_SHUTDOWN_TIMEOUT_S, Broker
from cluster.broker.cleaning_process import CleaningProcess
from cluster.clock import SystemClock
from replog.log.errors import LogStorageError
from replog.log.manager import LogManager
from replog.rpc.channel import GrpcTransport

from .conftest import InProcessCluster, eventually


async def test_a_start_that_is_called_off_holds_its_directory_until_the_recovery_in_the_thread_is_through(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow_load(*_: object) -> None:
        begun.set()
        may_end.wait(60)

    monkeypatch.setattr(LogManager, "load", slow_load)
    config = cluster.config(1)
    broker = Broker(config, GrpcTransport(), SystemClock(), random.Random(1), CleaningProcess())
    starting = asyncio.create_task(broker.start())
    await eventually(begun.is_set)
    starting.cancel()
    await asyncio.sleep(0.2)
    try:
        with pytest.raises(LogStorageError, match="in use"):
            LogManager(config.log_dirs[0], cluster_id="", node_id=1, randbytes=os.urandom)
    finally:
        may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    cluster_id = cluster.controller.state.image.cluster_id
    LogManager(config.log_dirs[0], cluster_id=cluster_id, node_id=1, randbytes=os.urandom).abandon()


async def test_a_broker_whose_id_was_taken_over_does_not_wait_for_leave_to_stop(cluster: InProcessCluster) -> None:
    """STALE_BROKER_EPOCH during the controlled shutdown: no heartbeat will ever bring the answer."""
    broker = await cluster.start_broker(1)
    broker._lifecycle.broker_epoch -= 1
    async with asyncio.timeout(CONTROLLED_SHUTDOWN_TIMEOUT_S - 5):
        await cluster.stop_broker(1)
    assert broker.failed
    assert not (broker.config.log_dirs[0] / ".kafka_cleanshutdown").exists()
