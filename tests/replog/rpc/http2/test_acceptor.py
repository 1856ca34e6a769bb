"""New connections are begun at a rate: hosts take turns, and of one host the newest goes first."""

import asyncio
import contextlib
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Iterable

from replog.rpc.http2.shells import acceptor
from replog.rpc.http2.shells.acceptor import REST_S, TAKEN_AT_ONCE, Acceptor
from tests.replog.rpc.handlers import until

S = 60.0
GONE = struct.pack("ii", 1, 0)  # for SO_LINGER: reset when it is closed

Place = tuple[str, int]


class Begun:
    """The connections that were begun: when, and of whom."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.peers: list[Place] = []
        self.address: Place
        self.acceptor: Acceptor
        self._another = asyncio.Event()

    async def all_of(self, clients: Iterable[socket.socket]) -> None:
        """In this order."""
        places = [client.getsockname() for client in clients]
        async with asyncio.timeout(S):
            while len(self.peers) < len(places):
                self._another.clear()
                await self._another.wait()
        assert self.peers == places

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
    begun.acceptor = Acceptor([listener], begun.protocol)
    try:
        yield begun
    finally:
        begun.acceptor.close()
        await asyncio.sleep(0)


@contextlib.contextmanager
def connected(begun: Begun, *hosts: str):
    """A client of each; the loop does not run meanwhile."""
    with contextlib.ExitStack() as opened:
        yield [
            opened.enter_context(socket.create_connection(begun.address, source_address=(host, 0))) for host in hosts
        ]


async def test_one_is_begun_and_the_next_after_a_rest_the_newest_first():
    async with listening() as begun:
        with connected(begun, *["127.0.0.1"] * 10) as clients:
            await begun.all_of(reversed(clients))
    assert begun.times[-1] - begun.times[0] >= 9 * REST_S / 2, "the first may be begun late, where others run too"


async def test_hosts_take_turns():
    async with listening() as begun:
        hosts = ["127.0.0.2", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"]
        with connected(begun, *hosts) as (a, v, w, x, b):
            await begun.all_of([b, x, a, w, v])


async def test_those_who_come_are_taken_though_others_wait_and_a_newcomer_goes_before_them(monkeypatch):
    monkeypatch.setattr(acceptor, "REST_S", 0.5)
    async with listening() as begun:
        with connected(begun, *["127.0.0.1"] * 3) as clients:
            await begun.all_of(clients[2:])
            with connected(begun, "127.0.0.1") as newcomers:
                await begun.all_of([clients[2], *newcomers, clients[1], clients[0]])


async def test_those_whose_client_has_gone_again_hold_nobody_up():
    async with listening() as begun:
        with connected(begun, "127.0.0.1") as clients:
            for number in range(TAKEN_AT_ONCE - 2):
                with socket.create_connection(begun.address) as gone:
                    if number % 2:
                        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GONE)
            await begun.all_of(clients)


async def test_the_host_of_which_most_wait_loses_its_oldest_for_one_too_many(monkeypatch):
    monkeypatch.setattr(acceptor, "MAX_WAITING", 3)
    async with listening() as begun:
        with connected(begun, "127.0.0.2", *["127.0.0.1"] * 4) as (a, *others):
            await begun.all_of([a, others[3], others[2]])
            assert [others[0].recv(1), others[1].recv(1)] == [b"", b""]


async def test_who_still_waits_when_the_server_stops_is_closed(monkeypatch):
    monkeypatch.setattr(acceptor, "REST_S", 0.5)
    async with listening() as begun:
        with connected(begun, *["127.0.0.1"] * 3) as clients:
            await begun.all_of(clients[2:])
            begun.acceptor.close()
            begun.acceptor.close()
            assert [client.recv(1) for client in clients[:2]] == [b"", b""]
            assert begun.peers == [clients[2].getsockname()]


async def test_without_a_descriptor_it_says_so_and_tries_again(monkeypatch, caplog):
    monkeypatch.setattr(acceptor, "RETRY_S", 0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with listening() as begun:
        with connected(begun, "127.0.0.1") as clients:
            free = os.dup(0)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                await until(lambda: "Too many open files" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await begun.all_of(clients)
    assert "no connection can be taken for 0.05 s" in caplog.text
