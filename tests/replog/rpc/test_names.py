"""Hosts are found while a disk hangs, and who refuses is told from who is only silent."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from replog.rpc import methods
from replog.rpc.names import AT_ONCE, look_up
from replog.rpc.transports import H2Transport
from tests.replog.rpc.handlers import Handlers, ask, channel_to, serving
from tests.replog.waiting import until

H2 = H2Transport()
SILENT = """
import asyncio, socket, sys, threading
from replog.rpc.names import look_up
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
print("asks", flush=True)
asyncio.run(look_up("a.name", 1))"""
FORKED = """
import asyncio, os
from replog.rpc.names import look_up
asyncio.run(look_up("localhost", 1))
if child := os.fork():
    os._exit(os.waitpid(child, 0)[1] >> 8)
assert asyncio.run(look_up("localhost", 1))
os._exit(0)"""


async def test_so_many_names_are_asked_for_at_once_and_others_wait(monkeypatch):
    begun, answers = threading.Semaphore(0), threading.Event()

    def slow(host: str, port: int, **_: object) -> list[str]:
        begun.release()
        assert answers.wait(60)
        return [host]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    looking = [asyncio.create_task(look_up(f"host-{number}", 1)) for number in range(2 * AT_ONCE)]
    await asyncio.to_thread(lambda: [begun.acquire() for _ in range(AT_ONCE)])
    assert not begun.acquire(timeout=0.1), "one more was asked for"
    answers.set()
    assert await asyncio.gather(*looking) == [[f"host-{number}"] for number in range(2 * AT_ONCE)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_connection_is_made_though_all_threads_of_the_loop_wait_for_a_disk(host):
    loop, disk = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with serving(Handlers(), methods.LOG) as address:
        waiting = loop.run_in_executor(None, disk.wait)
        there = f"{host}:{address.rpartition(':')[2]}"
        try:
            async with channel_to(there) as channel:
                assert await ask(channel, "a") == ["a"]
            assert not await H2.is_refused(there, 60.0)
            assert not waiting.done()
        finally:
            disk.set()
    assert await H2.is_refused(there, 60.0)


def test_ctrl_c_waits_for_no_name_server():
    with subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1, "somebody asks")
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    assert errors.endswith(b"KeyboardInterrupt\n")


def test_a_child_finds_hosts_though_its_parent_has_looked_some_up():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=60)


async def test_silence_is_no_refusal():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(4):  # more than it takes
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        begun = asyncio.get_running_loop().time()
        assert not await H2.is_refused(f"127.0.0.1:{full.getsockname()[1]}", 0.3)
        assert asyncio.get_running_loop().time() - begun >= 0.25, "it gave no answer"


async def test_a_name_that_cannot_be_one_is_no_refusal():
    assert not await H2.is_refused(f"{'x' * 70}.example:9092", 60)
