"""Files of replicas that are read for audits, while their disk is slow."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from replog.rpc.peer import anonymous, handling
from replog.rpc.v1 import inspection_pb2
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, eventually

TP = TopicPartition("t", 0)


async def test_a_call_that_is_cancelled_while_its_file_is_opened_leaves_no_descriptor(cluster: InProcessCluster):
    broker = await cluster.begin(1)
    path = cluster.log(1, TP).directory / f"{0:020d}.timeindex"
    path.unlink()
    os.mkfifo(path)  # opening it waits, as on a disk that hangs, until somebody writes
    handling(anonymous("127.0.0.1"))
    request = inspection_pb2.ReadFileRequest(topic=TP.topic, partition=TP.partition, file=inspection_pb2.TIME_INDEX)
    read = asyncio.ensure_future(anext(broker._inspection.read_file(request)))
    await eventually(_a_thread_opens)
    read.cancel()
    await asyncio.sleep(0)
    os.close(os.open(path, os.O_WRONLY))
    with pytest.raises(asyncio.CancelledError):
        await read
    await eventually(lambda: not _open(path), what=lambda: _open(path))
    path.unlink()
    path.touch()


def _a_thread_opens() -> bool:
    tops = list(sys._current_frames().values())
    return any(top.f_back is not None and top.f_back.f_code.co_name == "with_room" for top in tops)


def _open(path: Path) -> list[str]:
    """Descriptors of this process on it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                found.append(name)
    return found
