"""The network of a simulation: it delays, loses, repeats, blocks and breaks what processes send each other.

What travels is bytes, by the codecs of each method, as over gRPC. Hosts go by the names of their processes, which a
restart keeps; a connection belongs to two incarnations, and no message reaches one that it was not sent to.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from cluster.simulation.calls import NOTICED_S, Call, UnaryCall, lost
from cluster.simulation.chance import Chance
from cluster.simulation.links import Calm, Link, Weather
from cluster.simulation.loop import KERNEL, SimulatedLoop
from cluster.simulation.process import DEAD, PAUSED, SimulatedProcess
from cluster.simulation.streams import StreamCall, watch
from replog.config import parse_address
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method, methods_of
from replog.rpc.transport import Channel, Server, Stream, Transport

KEEPALIVE_S = 5.0, 12.0  # when a client notices that its server says nothing at all any more
GONE_S = 10.0, 30.0  # when a server notices that of its client
AFTER_CANCEL_S = 1.0  # how long a server that stops waits for handlers it has cancelled


class Network:
    """`on_event(process, event, **details)` hears of each fault, `on_message` of each message; both cost nothing unset.

    `counts` has how many messages were dropped, duplicated, reordered, delayed (of a stream) and blocked, and how
    many calls and streams were broken.
    """

    def __init__(self, loop: SimulatedLoop, chance: Chance, weather: Weather | None = None) -> None:
        self.loop = loop
        self.chance = chance
        self.weather: Weather = weather or Calm()
        self.counts: dict[str, int] = {}
        self.on_event: Callable[..., None] | None = None
        self.on_message: Callable[..., None] | None = None
        self.servers: dict[str, SimulatedServer] = {}  # by address: whoever listened there last, dead or alive
        self.liars: set[str] = set()  # hosts that are said to refuse connections, whatever listens there
        self.calls: dict[Call, None] = {}  # those that one side or the other believes to go on
        self._chance = chance.stream("the network")
        self._links: dict[tuple[str, str], Link] = {}
        self._ports = 20_000
        loop.on_kill.append(self._died)
        loop.on_pause.append(self._paused)

    def transport(self, process: SimulatedProcess) -> Transport:
        """For one process. That a host is back tells the peers of its last incarnation that that one is no more."""
        for call in list(self.calls):
            if call.client.state is DEAD and call.client.name == process.name:
                call.break_off(None, self._chance.uniform(0.01, 1.0))
            if call.server is not None and call.server.process.state is DEAD and call.server.host == process.name:
                call.break_off(self._chance.uniform(0.01, 1.0), None)
        return SimulatedTransport(self, process)

    # faults

    def block(self, source: str, target: str) -> None:
        """Nothing gets from one to the other until `heal`: it waits there, until the connection breaks."""
        link = self.link(source, target)
        if not link.blocked:
            self._tell(source, "blocked", to=target)
            link.block()
            self._expect_break(link)

    def heal(self, source: str, target: str) -> None:
        """What waited arrives, and so does all that follows."""
        link = self.link(source, target)
        if link.blocked:
            self._tell(source, "healed", to=target)
            link.heal()

    def slow(self, source: str, target: str, delay_ms: tuple[float, float]) -> None:
        """So much on top of the usual delay, in one direction, until `slow(…, (0, 0))`."""
        self._tell(source, "slow", to=target, ms=f"{delay_ms[0]:.1f}-{delay_ms[1]:.1f}")
        self.link(source, target).slow_ms = delay_ms

    def repeat_late(self, source: str, target: str, within_s: float) -> None:
        """Many a request arrives twice, the second time up to so much later, until `repeat_late(…, 0)`."""
        self._tell(source, "repeating late", to=target, s=f"{within_s:.1f}")
        self.link(source, target).repeats_s = within_s

    def heal_all(self) -> None:
        """No link is blocked or slow, nothing is repeated late, nobody lies."""
        self.liars.clear()
        for link in list(self._links.values()):
            link.slow_ms = (0.0, 0.0)
            link.repeats_s = 0.0
            self.heal(link.source, link.target)

    def break_connections(self, one: str, other: str) -> None:
        """Whatever runs between the two, either way, is cut off; the server may notice much later than the client."""
        for call in self._between(one, other):
            client_s = self._chance.random() ** 3
            self._break(call, client_s, client_s + self._chance.random() ** 3 * 3)

    def end_calls(self, client: str, method: str) -> None:
        """Only those of one host and one method; both sides notice soon."""
        for call in list(self.calls):
            if not call.broken and call.client.name == client and call.what == method:
                self._break(call, self._chance.random(), self._chance.random())

    def count(self, kind: str, source: str, target: str, **details: Any) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.on_event is not None:
            self.on_event(source, f"network: {kind}", to=target, **details)

    def _tell(self, source: str, event: str, **details: Any) -> None:
        if self.on_event is not None:
            self.on_event(source, f"network: {event}", **details)

    # what calls ask

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self, source, target)
        return link

    def host(self, address: str) -> str:
        """The name of the process that listens there, or did last."""
        server = self.servers.get(address)
        return address if server is None else server.host

    def reachable(self, address: str) -> "SimulatedServer | None":
        server = self.servers.get(address)
        return server if server is not None and server.accepting and server.process.state is not DEAD else None

    async def is_refused(self, process: SimulatedProcess, address: str, timeout_s: float) -> bool:
        """The answer of the host's system to a connection; who is cut off, or has no power, gives none."""
        host = self.host(address)
        up, down = self.link(process.name, host), self.link(host, process.name)
        server = self.servers.get(address)
        dark = server is not None and server.process.state is DEAD and server.process.lost_power
        trip_s = up.delay_s() + down.delay_s()
        if up.blocked or down.blocked or dark or trip_s > timeout_s:
            await asyncio.sleep(timeout_s)
            return False
        await asyncio.sleep(trip_s)
        return host in self.liars or self.reachable(address) is None

    def bind(self, server: "SimulatedServer", host: str, port: int) -> str:
        if port == 0:
            self._ports += 1
            port = self._ports
        address = f"{host}:{port}"
        if self.reachable(address) is not None:
            raise ReplogError(ErrorCode.INVALID_CONFIG, f"cannot listen on {address}: the port is in use")
        self.servers[address] = server
        return address

    # what becomes of connections

    def _between(self, one: str, other: str) -> list[Call]:
        return [call for call in self.calls if not call.broken and call.between(one, other)]

    def _break(self, call: Call, client_s: float | None, server_s: float | None) -> None:
        self.count("broken", call.up.source, call.up.target, what=call.what)
        call.break_off(client_s, server_s)

    def _expect_break(self, link: Link) -> None:
        wait_s = self._chance.uniform(*NOTICED_S)
        self.loop.call_later(wait_s, self._blocked_too_long, link, link.blocks, context=KERNEL)

    def _blocked_too_long(self, link: Link, blocks: int) -> None:
        if link.blocked and link.blocks == blocks:
            for call in self._between(link.source, link.target):
                self._break(call, self._chance.random(), self._chance.uniform(0.0, 20.0))
            self._expect_break(link)

    def _died(self, process: SimulatedProcess) -> None:
        """Its system closes what it had open, after what it had sent; of a host without power nothing is heard."""
        for call in list(self.calls):
            if call.client is process:
                call.client_died()
                call.break_off(None, self._news_s(call.up, process, GONE_S))
            elif call.server is not None and call.server.process is process:
                call.server_died()
                call.break_off(self._news_s(call.down, process, KEEPALIVE_S), None)
                if not process.lost_power:  # its host says so again and again: a short cut does not hide it for long
                    call.down.hold(call.client_hears, lost(call.address, "the connection was lost"))

    def _news_s(self, link: Link, process: SimulatedProcess, silence_s: tuple[float, float]) -> float:
        if process.lost_power or link.blocked:
            return self._chance.uniform(*silence_s)
        return link.delay_s() + self._chance.random() ** 4

    def _paused(self, process: SimulatedProcess) -> None:
        """It does not answer its clients' pings."""
        self.loop.call_later(self._chance.uniform(*KEEPALIVE_S), self._still_paused, process, context=KERNEL)

    def _still_paused(self, process: SimulatedProcess) -> None:
        if process.state is PAUSED:
            for call in list(self.calls):
                if call.server is not None and call.server.process is process and not call.broken:
                    self._break(call, self._chance.random(), self._chance.random())


class SimulatedTransport:
    """`replog.rpc.transport.Transport`."""

    def __init__(self, network: Network, process: SimulatedProcess) -> None:
        self._network = network
        self._process = process

    def connect(self, address: str) -> Channel:
        return SimulatedChannel(self._network, self._process, address)

    def listen(self, address: str) -> Server:
        return SimulatedServer(self._network, self._process, address)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await self._network.is_refused(self._process, address, timeout_s)


class SimulatedChannel:
    """`replog.rpc.transport.Channel`."""

    def __init__(self, network: Network, process: SimulatedProcess, address: str) -> None:
        self.address = address
        self.network = network
        self.process = process
        self._closed = False

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        self._check_open()
        return await UnaryCall(self, method).run(request, timeout_s)

    def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        self._check_open()
        return watch(self, method, request)

    def open(self, method: Method) -> Stream:
        self._check_open()
        return StreamCall(self, method)

    async def close(self) -> None:
        self._closed = True
        for call in [call for call in self.network.calls if call.channel is self]:
            call.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the channel to {self.address} is closed")  # as grpc does: a defect of the caller


class SimulatedServer:
    """`replog.rpc.transport.Server`; its handlers run as tasks of its process."""

    def __init__(self, network: Network, process: SimulatedProcess, address: str) -> None:
        self.process = process
        self.host = process.name
        self.accepting = False
        self.serving = False
        self.handlers: dict[str, Callable[..., Any]] = {}  # by path
        self.tasks: dict[asyncio.Task[None], Call] = {}
        self._network = network
        self._address = address

    def add(self, service: ServiceDescriptor, handlers: object) -> None:
        for method in methods_of(service).values():
            self.handlers[method.path] = getattr(handlers, method.handler_name)

    async def start(self) -> str:
        address = self._network.bind(self, *parse_address(self._address))
        self.accepting = True
        return address

    async def set_serving(self, serving: bool) -> None:
        self.serving = serving

    async def stop(self, grace_s: float) -> None:
        self.accepting = False
        self.serving = False
        if self.tasks and grace_s > 0:
            await asyncio.wait(list(self.tasks), timeout=grace_s)
        if self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.wait(list(self.tasks), timeout=AFTER_CANCEL_S)
