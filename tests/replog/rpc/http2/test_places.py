"""The connections of one host, and those of others beside it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from replog.rpc import http2, methods
from replog.rpc.http2.places import Places
from replog.rpc.http2.server import H2Server
from replog.rpc.http2.transport import H2Transport
from replog.rpc.limits import ConnectionLimits
from replog.rpc.v1 import log_pb2
from tests.replog.rpc.handlers import Handlers

S = 60.0


class Wire:
    def __init__(self, idle_since: float, is_idle: bool = True) -> None:
        self.idle_since = idle_since
        self.is_idle = is_idle


def taken(places: Places, host: str, *wires: Wire) -> None:
    for wire in wires:
        places.take(wire, host)


def test_the_host_with_most_gives_way_and_of_it_who_is_idle_for_longest():
    places = Places(ConnectionLimits())
    busy, old, young = Wire(1, is_idle=False), Wire(2), Wire(3)
    taken(places, "a", busy, young, old)
    taken(places, "b", Wire(0))
    assert places.yielding("c") is old
    places.leave(old, "a")
    assert places.yielding("c") is young
    places.leave(young, "a")
    assert places.yielding("c") is None, "a and b have one each, and c would have as many"
    assert Places(ConnectionLimits()).yielding("c") is None


def test_who_has_as_many_gets_no_more_and_nothing_is_kept_of_who_has_left():
    places = Places(ConnectionLimits(per_host=2))
    wires = Wire(1), Wire(2)
    taken(places, "a", *wires)
    taken(places, "b", Wire(1))
    assert (places.admits("a"), places.admits("b"), places.admits("c")) == (False, True, True)
    assert places.yielding("b") is None
    for wire in wires:
        places.leave(wire, "a")
        places.leave(wire, "a")
    assert places.admits("a")
    assert list(places._of) == ["b"]


@contextlib.asynccontextmanager
async def served(limits: ConnectionLimits = ConnectionLimits()) -> AsyncIterator[tuple[str, int]]:  # noqa: B008
    server = H2Server("127.0.0.1:0", None, limits)
    server.add(methods.LOG, Handlers())
    host, _, port = (await server.start()).rpartition(":")
    try:
        yield host, int(port)
    finally:
        while _KEPT:
            _KEPT.pop().close()
        await server.stop(0)


async def connected(address: tuple[str, int], host: str) -> asyncio.StreamReader:
    """Once the server has begun to greet, or has closed it."""
    reader, writer = await asyncio.open_connection(*address, local_addr=(host, 0))
    _KEPT.append(writer)
    with contextlib.suppress(ConnectionError):
        await reader.read(1)
    return reader


_KEPT: list[asyncio.StreamWriter] = []


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Else the rest of the server's greeting is all that there is."""
    try:
        async with asyncio.timeout(1.0):
            await reader.read(-1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


async def test_a_host_that_has_taken_all_places_gives_one_to_another(monkeypatch):
    monkeypatch.setattr(http2.server, "MAX_CONNECTIONS", 4)
    async with served() as address:
        hostile = [await connected(address, "127.0.0.1") for _ in range(4)]
        assert await is_closed(await connected(address, "127.0.0.1")), "it has them all"
        welcome = await connected(address, "127.0.0.2")
        assert not await is_closed(welcome)
        assert [await is_closed(reader) for reader in hostile] == [True, False, False, False]
        assert not await is_closed(await connected(address, "127.0.0.2"))
        assert await is_closed(await connected(address, "127.0.0.2")), "each has two"


async def test_a_host_has_so_many_connections_and_no_more():
    async with served(ConnectionLimits(per_host=2)) as address:
        readers = [await connected(address, "127.0.0.1") for _ in range(3)]
        assert [await is_closed(reader) for reader in readers] == [False, False, True]
        assert not await is_closed(await connected(address, "127.0.0.2"))


async def test_a_connection_without_a_call_for_too_long_is_closed_and_one_with_a_call_is_not():
    async with served(ConnectionLimits(idle_ms=300)) as address:
        silent = await connected(address, "127.0.0.1")
        channel = H2Transport().connect(f"{address[0]}:{address[1]}")
        stream = channel.open(methods.Log["fetch"])
        async with asyncio.timeout(S):
            await silent.read(-1)
        await asyncio.sleep(0.7)
        stream.cancel()
        await asyncio.sleep(0.7)
        request = log_pb2.GetMetadataRequest(topics=["t"])
        assert await channel.call(methods.Log["get_metadata"], request, S), "a new connection is made when it is needed"
        await channel.close()
