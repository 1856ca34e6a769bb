"""A server in the simulated network."""

import asyncio
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from replog.config.listeners import parse_address
from replog.rpc.methods import methods_of
from replog.rpc.transport import Denied, unheard
from replog.simulator.runtime.process import SimulatedProcess

AFTER_CANCEL_S = 1.0  # the longest time that a server that stops waits for handlers it has cancelled

Bind = Callable[["SimulatedServer", str, int], str]
"""Lets the server listen at this host and port, and returns the address."""


class SimulatedServer:
    """A `replog.rpc.transport.Server`; its handlers run as tasks of its process."""

    connections = None

    def __init__(self, bind: Bind, process: SimulatedProcess, address: str) -> None:
        self.process = process
        self.host = process.name
        self.accepting = False
        self.serving = False
        self.handlers: dict[str, Callable[..., Any]] = {}  # keys: methods' paths
        self.tasks: dict[asyncio.Task[None], None] = {}  # the handlers'
        self._bind = bind
        self._address = address

    def add(self, service: ServiceDescriptor, handlers: object, denied: Denied = unheard) -> None:
        for method in methods_of(service).values():
            self.handlers[method.path] = getattr(handlers, method.handler_name)

    async def start(self) -> str:
        address = self._bind(self, *parse_address(self._address))
        self.accepting = True
        return address

    async def set_serving(self, serving: bool, *services: str) -> None:
        if not services or "" in services:
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
