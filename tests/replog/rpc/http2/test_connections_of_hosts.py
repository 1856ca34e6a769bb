"""The connections of one host, and those of others beside it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from replog.rpc import methods
from replog.rpc.http2.shells import server as server_module
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.limits import ConnectionLimits
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import log_pb2
from tests.replog.rpc.handlers import Handlers, ask, listening
from tests.replog.rpc.http2.raw import PREFACE, settings

S = 60.0


@contextlib.asynccontextmanager
async def served(limits: ConnectionLimits = ConnectionLimits()) -> AsyncIterator[tuple[str, int]]:  # noqa: B008
    async with listening(H2Server("127.0.0.1:0", None, limits), Handlers(), methods.LOG) as address:
        host, _, port = address.rpartition(":")
        yield host, int(port)
        while _KEPT:
            _KEPT.pop().close()


async def connected(address: tuple[str, int], host: str) -> asyncio.StreamReader:
    """Once the server has begun to answer the client's first bytes, or has closed it."""
    reader, writer = await asyncio.open_connection(*address, local_addr=(host, 0))
    _KEPT.append(writer)
    writer.write(PREFACE + settings({}))
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
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 4)
    async with served() as address:
        hostile = [await connected(address, "127.0.0.1") for _ in range(4)]
        assert await is_closed(await connected(address, "127.0.0.1")), "it has them all"
        welcome = await connected(address, "127.0.0.2")
        assert not await is_closed(welcome)
        assert [await is_closed(reader) for reader in hostile] == [True, False, False, False]
        assert not await is_closed(await connected(address, "127.0.0.2"))
        assert await is_closed(await connected(address, "127.0.0.2")), "each has two"


async def test_the_connection_that_is_idle_for_longest_goes_first_and_of_busy_ones_the_newest(monkeypatch):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 4)
    async with served() as address:
        channels, reading = [], []
        for number in range(3):
            channels.append(H2Transport().connect(f"{address[0]}:{address[1]}"))
            await ask(channels[number], "t")
            if number != 1:  # the one in the middle is idle
                stream = channels[number].open(methods.Log["fetch"])
                await stream.send(log_pb2.FetchRequest())
                await stream.receive(S)
                reading.append(asyncio.create_task(stream.receive()))
        await connected(address, "127.0.0.3")
        oldest, idle, newest = (channel._connection for channel in channels)
        await connected(address, "127.0.0.2")
        async with asyncio.timeout(S):
            await idle.closed()
        assert [oldest.lost, newest.lost] == [False, False]
        await connected(address, "127.0.0.4")
        done, _ = await asyncio.wait(reading, timeout=S, return_when=asyncio.FIRST_COMPLETED)
        assert done == {reading[1]}, "a stream that has been there for longer stays"
        for channel in channels:
            await channel.close()
        await asyncio.gather(*reading, return_exceptions=True)


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
        assert await ask(channel, "t"), "a new connection is made when it is needed"
        await channel.close()
