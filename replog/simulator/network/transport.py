"""A process's access to the simulated network: its transport, its server, and channels to others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from replog.config.listeners import parse_address
from replog.rpc.methods import Method, methods_of
from replog.rpc.transport import Channel, Denied, Server, Stream, unheard
from replog.simulator.network.calls import UnaryCall
from replog.simulator.network.network import SimulatedNetwork
from replog.simulator.network.streams import StreamCall
from replog.simulator.runtime.process import SimulatedProcess

AFTER_CANCEL_S = 1.0  # the longest time that a server that stops waits for handlers it has cancelled


class SimulatedTransport:
    """A `replog.rpc.transport.Transport`."""

    tls = None

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess) -> None:
        network.is_back(process)
        self._network = network
        self._process = process

    def connect(self, address: str) -> Channel:
        return SimulatedChannel(self._network, self._process, address)

    def listen(self, address: str) -> Server:
        return SimulatedServer(self._network, self._process, address)

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        return await self._network.is_refused(self._process, address, timeout_s)


class SimulatedChannel:
    """A `replog.rpc.transport.Channel`."""

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess, address: str) -> None:
        self.network = network
        self.process = process
        self.address = address
        self._closed = False

    async def call(self, method: Method, request: Any, timeout_s: float) -> Any:
        self._check_open()
        return await UnaryCall(self, method).run(request, timeout_s)

    async def watch(self, method: Method, request: Any) -> AsyncIterator[Any]:
        call = self.open(method)
        try:
            await call.send(request)
            await call.finish()
            while (message := await call.receive()) is not None:
                yield message
        finally:
            call.cancel()

    def open(self, method: Method) -> Stream:
        self._check_open()
        return StreamCall(self, method)

    async def close(self) -> None:
        self._closed = True
        for call in [call for call in self.network.calls if call.channel is self]:
            call.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the channel to {self.address} is closed")  # a defect of the caller; grpc raises it too


class SimulatedServer:
    """A `replog.rpc.transport.Server`; its handlers run as tasks of its process."""

    connections = None

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess, address: str) -> None:
        self.process = process
        self.host = process.name
        self.accepting = False
        self.handlers: dict[str, Callable[..., Any]] = {}  # keys: methods' paths
        self.tasks: dict[asyncio.Task[None], None] = {}  # the handlers'
        self._network = network
        self._address = address

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unheard) -> None:
        for method in methods_of(service).values():
            self.handlers[method.path] = getattr(handlers, method.handler_name)

    async def start(self) -> str:
        address = self._network.bind(self, *parse_address(self._address))
        self.accepting = True
        return address

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Do nothing: no simulated process asks for it."""

    async def stop(self, grace_s: float) -> None:
        self.accepting = False
        if self.tasks and grace_s > 0:
            await asyncio.wait(list(self.tasks), timeout=grace_s)
        if self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.wait(list(self.tasks), timeout=AFTER_CANCEL_S)
