"""The network of a simulation: it delays, loses, repeats and blocks messages of processes, and breaks connections.

Messages travel as bytes, by the codecs of each method, as over gRPC. A host has the name of its process, which a
restart keeps; a connection belongs to two incarnations, and no message reaches one that it was not sent to."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from replog.config.listeners import parse_address
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import methods_of
from replog.rpc.transport import Denied, NewTalk, ServerStream, unrecorded
from replog.simulator.network.links import Air, Link
from replog.simulator.network.talks import KAFKA, SimulatedWire
from replog.simulator.runtime.loop import KERNEL, SimulatedLoop
from replog.simulator.runtime.process import DEAD, PAUSED, SimulatedProcess
from replog.simulator.runtime.rng import Rng, Streams

NOTICED_S = 5.0, 20.0  # the time until a connection breaks on which nothing gets through
KEEPALIVE_S = 5.0, 12.0  # the time until a client notices that its server is silent
GONE_S = 10.0, 30.0  # the time until a server notices that its client is silent
AFTER_CANCEL_S = 1.0  # the longest time that a server that stops waits for handlers it has cancelled


def lost(address: str, why: str) -> ReplogError:
    return ErrorCode.NETWORK_EXCEPTION.error(f"{address} cannot be reached: {why}")


class SimulatedServer:
    """A `replog.rpc.transport.Server`; its handlers run as tasks of its process."""

    connections = None

    def __init__(self, network: "SimulatedNetwork", process: SimulatedProcess, address: str) -> None:
        self.process = process
        self.host = process.name
        self.accepting = False
        self.handlers: dict[str, Callable[..., Any]] = {}  # keys: methods' paths
        self.tasks: dict[asyncio.Task[None], None] = {}  # the handlers'
        self._network = network
        self._address = address
        self._wires: dict[SimulatedWire, None] = {}

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unrecorded) -> None:
        for method in methods_of(service).values():
            self.handlers[method.path] = getattr(handlers, method.handler_name)

    def serve_kafka(self, new_talk: NewTalk, *, grpc: bool) -> None:
        """Serve both to everybody: no simulated client mistakes the one for the other."""
        self.handlers[KAFKA.path] = partial(self._talk, new_talk)

    async def _talk(self, new_talk: NewTalk, stream: ServerStream) -> None:
        wire = SimulatedWire(stream, new_talk)
        self._wires[wire] = None
        try:
            await wire.serve()
        finally:
            del self._wires[wire]

    async def start(self) -> str:
        address = self._network.bind(self, *parse_address(self._address))
        self.accepting = True
        return address

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Do nothing: no simulated process asks for it."""

    async def stop(self, grace_s: float) -> None:
        self.accepting = False
        for wire in list(self._wires):
            wire.drain()
        if self.tasks and grace_s > 0:
            await asyncio.wait(list(self.tasks), timeout=grace_s)
        if self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.wait(list(self.tasks), timeout=AFTER_CANCEL_S)


class SimulatedNetwork(Air):
    """Connects all processes of a simulation."""

    def __init__(self, loop: SimulatedLoop, rng: Rng) -> None:
        super().__init__(loop, rng)
        self.servers: dict[str, SimulatedServer] = {}  # each address's latest server, dead or alive
        self.liars: set[str] = set()  # hosts that seem to refuse connections, whatever listens there
        self.calls: dict[Any, None] = {}  # each `Call` that one side or the other still believes to go on
        self._rng = Streams(rng, "when connections break")
        self._links: dict[tuple[str, str], Link] = {}
        self._ports = 20_000
        loop.on_kill.append(self._died)
        loop.on_pause.append(self._paused)

    def is_back(self, process: SimulatedProcess) -> None:
        """Tell the peers of a host's last incarnation that it is dead, since `process` has begun."""
        for call in list(self.calls):
            if call.client.state is DEAD and call.client.name == process.name:
                call.break_off(None, self._rng[process.name].uniform(0.01, 1.0))
            if call.server is not None and call.server.process.state is DEAD and call.server.host == process.name:
                call.break_off(self._rng[process.name].uniform(0.01, 1.0), None)

    # faults

    def block(self, source: str, target: str) -> None:
        """Hold all messages in this direction until `heal`, or until their connection breaks."""
        link = self.link(source, target)
        if not link.blocked:
            self.tell(source, "blocked", to=target)
            link.block()
            self._expect_break(link)

    def heal(self, source: str, target: str) -> None:
        """Let messages that waited arrive, and all that follow."""
        link = self.link(source, target)
        if link.blocked:
            self.tell(source, "healed", to=target)
            link.heal()

    def slow(self, source: str, target: str, delay_ms: tuple[float, float]) -> None:
        """Add a delay to the usual one, in one direction, until `slow(…, (0, 0))`."""
        self.tell(source, "slow", to=target, ms=f"{delay_ms[0]:.1f}-{delay_ms[1]:.1f}")
        self.link(source, target).slow_ms = delay_ms

    def repeat_late(self, source: str, target: str, within_s: float) -> None:
        """Let every other request arrive a second time within `within_s`, until `repeat_late(…, 0)`."""
        self.tell(source, "repeating late", to=target, s=f"{within_s:.1f}")
        self.link(source, target).repeats_s = within_s

    def heal_all(self) -> None:
        """Heal every link; none is slow or repeats, and no host seems to refuse connections."""
        self.liars.clear()
        for link in list(self._links.values()):
            link.slow_ms = (0.0, 0.0)
            link.repeats_s = 0.0
            self.heal(link.source, link.target)

    def break_connections(self, one: str, other: str) -> None:
        """Break all calls between the two, in both directions; the server may notice much later than the client."""
        draw = self._rng[one].random
        for call in self._between(one, other):
            client_s = draw() ** 3
            self._break(call, client_s, client_s + draw() ** 3 * 3)

    def end_calls(self, client: str, method: str) -> None:
        """Break one host's calls of one method; both sides notice soon."""
        draw = self._rng[client].random
        for call in list(self.calls):
            if not call.broken and call.client.name == client and call.what == method:
                self._break(call, draw(), draw())

    # look-ups of calls

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self, source, target)
        return link

    def host(self, address: str) -> str:
        """Return the name of the process that listens there, or did last."""
        server = self.servers.get(address)
        return address if server is None else server.host

    def reachable(self, address: str) -> SimulatedServer | None:
        server = self.servers.get(address)
        return server if server is not None and server.accepting and server.process.state is not DEAD else None

    async def is_refused(self, process: SimulatedProcess, address: str, timeout_s: float) -> bool:
        """Return True if the host's system refuses a connection. A host that is cut off or without power does not
        answer, which takes `timeout_s`."""
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

    def bind(self, server: SimulatedServer, host: str, port: int) -> str:
        if port == 0:
            self._ports += 1
            port = self._ports
        address = f"{host}:{port}"
        if self.reachable(address) is not None:
            raise ErrorCode.INVALID_CONFIG.error(f"cannot listen on {address}: the port is in use")
        self.servers[address] = server
        return address

    # connections that end

    def _between(self, one: str, other: str) -> list[Any]:
        return [call for call in self.calls if not call.broken and {call.up.source, call.up.target} == {one, other}]

    def _break(self, call: Any, client_s: float | None, server_s: float | None) -> None:
        self.count("broken", call.up.source, call.up.target, what=call.what)
        call.break_off(client_s, server_s)

    def _expect_break(self, link: Link) -> None:
        wait_s = self._rng[link.source].uniform(*NOTICED_S)
        self.loop.call_later(wait_s, self._blocked_too_long, link, link.blocks, context=KERNEL)

    def _blocked_too_long(self, link: Link, blocks: int) -> None:
        if link.blocked and link.blocks == blocks:
            for call in self._between(link.source, link.target):
                rng = self._rng[link.source]
                self._break(call, rng.random(), rng.uniform(0.0, 20.0))
            self._expect_break(link)

    def _died(self, process: SimulatedProcess) -> None:
        """End a dead process's calls. Its system closes them after what it had sent; a host without power is silent."""
        for call in list(self.calls):
            if call.client is process:
                call.client_died()
                call.break_off(None, self._news_s(call.up, process, GONE_S))
            elif call.server is not None and call.server.process is process:
                call.server_died()
                call.break_off(self._news_s(call.down, process, KEEPALIVE_S), None)
                if not process.lost_power:  # its host goes on saying so, and a client hears it once a block is healed
                    call.down.hold(call.client_hears, lost(call.address, "the connection was lost"))

    def _news_s(self, link: Link, process: SimulatedProcess, silence_s: tuple[float, float]) -> float:
        if process.lost_power or link.blocked:
            return self._rng[process.name].uniform(*silence_s)
        return link.delay_s() + self._rng[process.name].random() ** 4

    def _paused(self, process: SimulatedProcess) -> None:
        """Break a paused server's calls if it is still paused when pings are overdue."""
        wait_s = self._rng[process.name].uniform(*KEEPALIVE_S)
        self.loop.call_later(wait_s, self._still_paused, process, context=KERNEL)

    def _still_paused(self, process: SimulatedProcess) -> None:
        if process.state is PAUSED:
            draw = self._rng[process.name].random
            for call in list(self.calls):
                if call.server is not None and call.server.process is process and not call.broken:
                    self._break(call, draw(), draw())
