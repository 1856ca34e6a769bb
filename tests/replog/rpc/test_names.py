"""Hosts are found while a disk hangs."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from replog.rpc import methods
from replog.rpc.http2.transport import H2Transport
from tests.replog.rpc.handlers import Handlers, ask, channel_to, serving

H2 = H2Transport()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_connection_is_made_though_all_threads_of_the_loop_wait_for_a_disk(host):
    loop, disk = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with serving(Handlers(), methods.LOG, transport=H2) as address:
        waiting = loop.run_in_executor(None, disk.wait)
        there = f"{host}:{address.rpartition(':')[2]}"
        try:
            async with channel_to(there, H2) as channel:
                assert await ask(channel, "a") == ["a"]
            assert not await H2.is_refused(there, 60.0)
            assert not waiting.done()
        finally:
            disk.set()
    assert await H2.is_refused(there, 60.0)
