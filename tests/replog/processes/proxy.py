"""One real link that can fail: a TCP proxy in front of a process, in the test's event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

CHUNK = 4096


class Proxy:
    """Connections to `address` reach `target`. While it is cut, nothing passes and nobody is told; TCP would go on
    trying for minutes. `bytes_per_s` is what passes to the client, over all connections.
    """

    def __init__(self, target: str, bytes_per_s: int | None = None) -> None:
        self.target = target
        self.bytes_per_s = bytes_per_s
        self.address = ""
        self._open = asyncio.Event()
        self._open.set()
        self._turn = asyncio.Lock()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    async def close(self) -> None:
        for listener in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        await asyncio.sleep(0)  # what was accepted just before is begun: a closed server would leave it open
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with socket.socket() as unconnected:
            unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)  # what is late waits at the sender
            unconnected.setblocking(False)
            host, _, port = self.target.rpartition(":")
            try:
                await asyncio.get_running_loop().sock_connect(unconnected, (host, int(port)))
            except (OSError, asyncio.CancelledError):  # nobody is there, or the test ends meanwhile
                writer.close()
                return
            from_target, to_target = await asyncio.open_connection(sock=unconnected.dup(), limit=CHUNK)
        for pump in (self._pump(reader, to_target, None), self._pump(from_target, writer, self.bytes_per_s)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bytes_per_s: int | None) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK):
                    await self._open.wait()
                    if bytes_per_s is not None:
                        async with self._turn:
                            await asyncio.sleep(len(data) / bytes_per_s)
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def proxy_to(target: str, bytes_per_s: int | None = None) -> AsyncIterator[Proxy]:
    proxy = Proxy(target, bytes_per_s)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
