"""`replog.rpc.transport.Server` over HTTP/2."""

import asyncio
import contextlib
import errno
import socket
from functools import partial

from replog.config.listeners import parse_address
from replog.rpc.fair_queue import FairQueue
from replog.rpc.http2.shells.accepted import Accepted, Shared
from replog.rpc.http2.shells.acceptor import Acceptor
from replog.rpc.http2.shells.handshakes import Handshakes, Refusals
from replog.rpc.http2.shells.newcomer import Newcomer, Successor
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.http2.shells.server_connection import ServerConnection
from replog.rpc.http2.shells.talk_connection import TalkConnection
from replog.rpc.http2.shells.unread import Unread
from replog.rpc.limits import DEFAULT_LIMITS, MAX_CONNECTIONS, ConnectionLimits
from replog.rpc.names import look_up
from replog.rpc.serving import Services, cannot_listen
from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls
from replog.rpc.transport import NewTalk

SWEEP_S = 10.0  # the longest pause between looks for connections that are idle, or no longer trusted
VANISHED_S = 60  # a peer whose machine takes nothing, and answers no probe, for so long is gone
# accepted sockets have them from the listener's
_OF_CONNECTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, VANISHED_S // 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, VANISHED_S // 6),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_S * 1000),
)
ENDING_S = 5.0  # the time for handlers that were cancelled


class H2Server(Services):
    """`replog.rpc.transport.Server`."""

    def __init__(self, address: str, tls: Tls | None = None, limits: ConnectionLimits = DEFAULT_LIMITS) -> None:
        super().__init__()
        self._address = address
        self._limits = limits
        self._sweeping: asyncio.Task[None] | None = None
        self._handshakes = None if tls is None else Handshakes(tls)
        self._connections = FairQueue[str, Accepted]()  # the peers are hosts
        self._acceptor: Acceptor | None = None
        self._drained = asyncio.Event()  # set when a connection was drained, or lost
        self._grpc: Successor | None = partial(ServerConnection, routes=self.routes)
        self._kafka: Successor | None = None
        self._shared = Shared(
            Reads(),
            Unread(self._connections),
            self._takes,
            self._changes,
            self._leaves,
            self._drained.set,
            Refusals(),
            self._handshakes,
        )

    def serve_kafka(self, new_talk: NewTalk, *, grpc: bool) -> None:
        self._kafka = partial(TalkConnection, new_talk=new_talk)
        also = " and Kafka's protocol"
        self._grpc = partial(ServerConnection, routes=self.routes, also=also) if grpc else None

    async def start(self) -> str:
        host, port = parse_address(self._address)
        try:
            sockets = await _listeners(host, port)
        except (OSError, UnicodeError) as error:
            raise cannot_listen(self._address) from error
        self._acceptor = Acceptor(sockets, partial(Newcomer, self._shared, self._grpc, self._kafka))
        self._sweeping = for_good(self._sweep(), "end idle connections")
        await self.set_serving(False)
        return f"{host}:{sockets[0].getsockname()[1]}"

    def _takes(self, connection: Accepted) -> bool:
        host = connection.asks.host
        if len(self._connections.of(host)) >= self._limits.per_host:
            return False
        if len(self._connections) >= MAX_CONNECTIONS:
            if not (crowd := self._connections.crowd(host)):
                return False
            # streams of busy ones are long: the newest goes, as `Gate` does it
            gives_way = min(reversed(crowd), key=lambda each: each.idle_since)
            self._dismiss(gives_way, "others need its place")
        self._connections.add(host, connection)
        return True

    def _changes(self, connection: Accepted, into: Accepted) -> None:
        self._connections.remove(connection.asks.host, connection)
        self._connections.add(into.asks.host, into)

    def _leaves(self, connection: Accepted) -> None:
        self._connections.remove(connection.asks.host, connection)

    def _dismiss(self, connection: Accepted, why: str) -> None:
        connection.dismiss(why)
        self._leaves(connection)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_S, self._limits.idle_ms / 4000))
            idle_before = loop.time() - self._limits.idle_ms / 1000
            for connection in [each for each in self._connections if each.idle_since <= idle_before]:
                self._dismiss(connection, "it had no call for connections.max.idle.ms")
            if self._handshakes is not None:
                self._handshakes.tls.look_soon()
            for connection in [connection for connection in self._connections if not connection.is_believed]:
                self._dismiss(connection, "an authority was removed from ssl.truststore.location")

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def stop(self, grace_s: float) -> None:
        await self.set_serving(False)
        if self._acceptor is not None:
            self._acceptor.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        connections = list(self._connections)
        for connection in connections:
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while any(connection.busy for connection in connections if not connection.lost):
                    self._drained.clear()
                    await self._drained.wait()
        tasks = [task for connection in connections for task in connection.tasks()]
        for connection in connections:
            connection.dismiss("this server stops")
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING_S)
        await asyncio.gather(*(connection.closed() for connection in connections))


async def _listeners(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of the host, all with one port. Raises OSError."""
    places = await look_up(host, port, socket.AI_PASSIVE)
    with contextlib.ExitStack() as opened:
        listeners: list[socket.socket] = []
        for family, kind, protocol, _, place in places:
            listener = opened.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the port of an ended process stays busy
            for level, option, value in _OF_CONNECTIONS:
                listener.setsockopt(level, option, value)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                listener.bind((place[0], port, *place[2:]))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL and len(places) > 1:
                    continue  # this machine does not have that address
                raise
            port = listener.getsockname()[1]
            listeners.append(listener)
        if not listeners:
            raise OSError(errno.EADDRNOTAVAIL, "none of its addresses is this machine's")
        opened.pop_all()
    return listeners
