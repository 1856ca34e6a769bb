"""`replog.rpc.transport.Server` over HTTP/2."""

import asyncio
import contextlib
import errno
import inspect
import socket
from typing import cast

from google.protobuf.descriptor import ServiceDescriptor

from replog.common.addresses import parse_address
from replog.rpc.gate import Gate
from replog.rpc.health import SERVICE as HEALTH
from replog.rpc.health import Health
from replog.rpc.http2.acceptor import Acceptor
from replog.rpc.http2.handshakes import Handshakes, Refusals
from replog.rpc.http2.places import Place, Places
from replog.rpc.http2.reads import Reads
from replog.rpc.http2.server_wire import Route, ServerWire
from replog.rpc.http2.unread import Unread
from replog.rpc.limits import MAX_CONNECTIONS, UNSAID, ConnectionLimits
from replog.rpc.methods import methods_of
from replog.rpc.names import look_up
from replog.rpc.reflection import SERVICES, Reflection
from replog.rpc.serving import cannot_listen
from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls
from replog.rpc.transport import Denied, unheard

SWEEP_S = 10.0  # the longest pause between looks for connections that are idle, or no longer trusted
ENDING_S = 5.0  # the time for handlers that were cancelled


class H2Server:
    """`replog.rpc.transport.Server`."""

    def __init__(self, address: str, tls: Tls | None = None, limits: ConnectionLimits = UNSAID) -> None:
        self._address = address
        self._limits = limits
        self._places = Places(limits)
        self._sweeping: asyncio.Task[None] | None = None
        self._refusals = Refusals()
        self._handshakes = None if tls is None else Handshakes(tls)
        self._routes: dict[str, Route] = {}
        self._names: list[str] = []
        self._wires: set[ServerWire] = set()
        self._acceptor: Acceptor | None = None
        self._reads = Reads()
        self._unread = Unread(self._wires)
        self._drained = asyncio.Event()  # set when a connection was drained, or lost
        self._health = Health()
        self.add(HEALTH, self._health)

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unheard) -> None:
        for method in methods_of(service).values():
            handler = getattr(handlers, method.handler_name)
            ends_with_answer = not method.client_streaming and inspect.iscoroutinefunction(handler)
            gate = Gate(method.path, method.limit)
            self._routes[method.path] = Route(method, handler, gate, denied, ends_with_answer)
        self._names.append(service.full_name)

    async def start(self) -> str:
        names = [*self._names, *(service.full_name for service in SERVICES)]
        for service in SERVICES:
            self.add(service, Reflection(names))
        host, port = parse_address(self._address)
        try:
            sockets = await _listeners(host, port)
        except (OSError, UnicodeError) as error:
            raise cannot_listen(self._address) from error
        self._acceptor = Acceptor(sockets, self._new_wire)
        self._sweeping = for_good(self._sweep(), "end idle connections")
        await self.set_serving(False)
        return f"{host}:{sockets[0].getsockname()[1]}"

    def _new_wire(self) -> ServerWire:
        return ServerWire(
            self._routes,
            self._reads,
            self._unread,
            self._takes,
            self._leaves,
            self._drained.set,
            self._refusals,
            self._handshakes,
        )

    def _takes(self, wire: ServerWire) -> bool:
        host = wire.asks.host
        if not self._places.admits(host):
            return False
        if len(self._wires) >= MAX_CONNECTIONS:
            gives_way = self._places.yielding(host)
            if gives_way is None:
                return False
            self._dismiss(gives_way, "others need its place")
        self._wires.add(wire)
        self._places.take(wire, host)
        return True

    def _leaves(self, wire: ServerWire) -> None:
        self._wires.discard(wire)
        self._places.leave(wire, wire.asks.host)

    def _dismiss(self, place: Place, why: str) -> None:
        wire = cast(ServerWire, place)
        wire.dismiss(why)
        self._leaves(wire)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_S, self._limits.idle_ms / 4000))
            for place in self._places.idle(loop.time()):
                self._dismiss(place, "it had no call for connections.max.idle.ms")
            if self._handshakes is not None:
                self._handshakes.tls.look_soon()
            for wire in [wire for wire in self._wires if not wire.is_believed]:
                self._dismiss(wire, "an authority was removed from ssl.truststore.location")

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Set the answer of health.v1 for these services; without names, for the whole server and each service."""
        self._health.set_serving(services or ("", *self._names), serving)

    @property
    def connections(self) -> int:
        return len(self._wires)

    async def stop(self, grace_s: float) -> None:
        await self.set_serving(False)
        if self._acceptor is not None:
            self._acceptor.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        wires = list(self._wires)
        for wire in wires:
            wire.connection.go_away()
            wire.write()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while any(wire.connection.open_streams for wire in wires if not wire.lost):
                    self._drained.clear()
                    await self._drained.wait()
        tasks = [call.task for wire in wires for call in wire.calls.values()]
        for wire in wires:
            wire.cut_short_all()
            wire.close("this server stops")
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING_S)
        await asyncio.gather(*(wire.closed() for wire in wires))


async def _listeners(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of the host, all with one port. Raises OSError."""
    places = await look_up(host, port, socket.AI_PASSIVE)
    with contextlib.ExitStack() as opened:
        listeners: list[socket.socket] = []
        for family, kind, protocol, _, place in places:
            listener = opened.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the port of an ended process stays busy
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
