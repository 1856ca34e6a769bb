"""A process's access to the simulated network: its transport, and channels to servers."""

from collections.abc import AsyncIterator
from typing import Any

from replog.rpc.methods import Method
from replog.rpc.transport import Channel, Server, Stream
from replog.simulator.network.calls import Connection, UnaryCall
from replog.simulator.network.network import SimulatedNetwork, SimulatedServer
from replog.simulator.network.streams import StreamCall
from replog.simulator.runtime.process import SimulatedProcess


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


class SimulatedChannel(Connection):
    """A `replog.rpc.transport.Channel`."""

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
        self.closed = True
        for call in [call for call in self.network.calls if call.channel is self]:
            call.cancel()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"the channel to {self.address} is closed")  # a defect of the caller; grpc raises it too
