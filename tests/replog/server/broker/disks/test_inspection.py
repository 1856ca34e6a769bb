"""Files of replicas that are read for audits, while their disk is slow."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from replog.rpc.peer import anonymous, handling
from replog.rpc.v1 import inspection_pb2
from tests.replog.log.hanging import Hanging
from tests.replog.server.broker.conftest import TP, InProcessCluster, eventually


async def test_a_call_that_is_cancelled_while_its_file_is_opened_leaves_no_descriptor(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
):
    broker = await cluster.begin(1)
    path = cluster.log(1, TP).directory / f"{0:020d}.timeindex"
    hanging = Hanging(path, monkeypatch)
    before = _open(path)
    handling(anonymous("127.0.0.1"))
    request = inspection_pb2.ReadFileRequest(topic=TP.topic, partition=TP.partition, file=inspection_pb2.TIME_INDEX)
    read = asyncio.ensure_future(anext(broker.inspection.read_file(request)))
    await eventually(hanging.is_opened.is_set)
    read.cancel()
    await asyncio.sleep(0)
    hanging.go_on()
    with pytest.raises(asyncio.CancelledError):
        await read
    await eventually(lambda: _open(path) == before, what=lambda: _open(path))


def _open(path: Path) -> list[str]:
    """Descriptors of this process on it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                found.append(name)
    return found
