"""New connections come at a rate."""

import asyncio
import contextlib
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from replog.rpc.http2 import acceptor
from replog.rpc.http2.acceptor import AT_ONCE, REST_S, Acceptor

S = 60.0
EARLY_S = 0.001  # by which a timer may be
GONE = struct.pack("ii", 1, 0)  # for SO_LINGER: reset when it is closed


class Begun:
    """The connections that were taken: when, and of whom."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.peers: list[tuple[str, int]] = []
        self.address = ("", 0)
        self.acceptor: Acceptor
        self._another = asyncio.Event()

    async def all_of(self, count: int) -> None:
        async with asyncio.timeout(S):
            while len(self.peers) < count:
                self._another.clear()
                await self._another.wait()

    def protocol(self) -> asyncio.Protocol:
        return Taken(self)

    def note(self, transport: asyncio.BaseTransport) -> None:
        self.times.append(asyncio.get_running_loop().time())
        self.peers.append(transport.get_extra_info("peername"))
        self._another.set()
        transport.close()


class Taken(asyncio.Protocol):
    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._begun.note(transport)


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[Begun]:
    begun = Begun()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    begun.address = listener.getsockname()
    begun.acceptor = Acceptor(listener, begun.protocol)
    try:
        yield begun
    finally:
        begun.acceptor.close()
        await asyncio.sleep(0)


async def test_one_is_taken_and_the_next_after_a_rest():
    async with listening() as begun:
        with contextlib.ExitStack() as clients:
            ours = [clients.enter_context(socket.create_connection(begun.address)) for _ in range(10)]
            await begun.all_of(10)
            assert begun.peers == [client.getsockname() for client in ours]
    rests = [after - before for before, after in zip(begun.times, begun.times[1:], strict=False)]
    assert min(rests) >= REST_S - EARLY_S, rests


async def test_those_whose_client_has_gone_again_hold_nobody_up():
    async with listening() as begun:
        for number in range(2 * AT_ONCE):
            with socket.create_connection(begun.address) as gone:
                if number % 2:
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GONE)
        with socket.create_connection(begun.address) as client:
            await begun.all_of(1)
            assert begun.peers == [client.getsockname()]


async def test_a_closed_one_takes_nothing_and_may_be_closed_again():
    async with listening() as begun:
        with socket.create_connection(begun.address):
            await begun.all_of(1)
        begun.acceptor.close()
        begun.acceptor.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(begun.address)
        await asyncio.sleep(2 * REST_S)
        assert len(begun.peers) == 1


async def test_without_a_descriptor_it_says_so_and_tries_again(monkeypatch, caplog):
    monkeypatch.setattr(acceptor, "RETRY_S", 0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with listening() as begun:
        with socket.create_connection(begun.address) as client:
            free = os.dup(0)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                async with asyncio.timeout(S):
                    while "Too many open files" not in caplog.text:
                        await asyncio.sleep(0.01)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await begun.all_of(1)
            assert begun.peers == [client.getsockname()]
    assert "no connection can be taken for 0.05 s" in caplog.text
