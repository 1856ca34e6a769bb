"""The listeners of a broker, and what each of them serves (D47)."""

import asyncio
from collections.abc import Callable
from functools import partial

from google.protobuf.descriptor import ServiceDescriptor
from prometheus_client.core import GaugeMetricFamily, Metric

from replog.config.listeners import Listener
from replog.config.processes import BrokerConfig
from replog.rpc import methods
from replog.rpc.serving import READY
from replog.rpc.transport import Server, Transport
from replog.server.authorizer import Authorizer, guarded
from replog.server.broker.kafka.connection import KafkaTalk
from replog.server.broker.kafka.dispatch import Dispatcher
from replog.server.broker.kafka.handlers import new_handlers
from replog.server.broker.kafka.service import KafkaService
from replog.server.metrics.families import labelled


class Listening:
    """The servers of a broker. The listener between brokers comes first."""

    def __init__(self, config: BrokerConfig, transport_of: Callable[[Listener], Transport]) -> None:
        self._config = config
        self._servers: dict[Listener, Server] = {
            listener: transport_of(listener).listen(listener.bind) for listener in config.bound
        }
        self.address = ""  # the address for other brokers
        self.endpoints: dict[str, str] = {}  # addresses of its other listeners, by name
        self.bound: dict[str, str] = {}  # addresses bound, by name, once it listens

    def add(self, service: ServiceDescriptor, handlers_of: Callable[[str], object], authorizer: Authorizer) -> None:
        """Serve a service where it may be used. `handlers_of` gets the name of the listener, empty for that between
        brokers."""
        for number, (listener, server) in enumerate(self._servers.items()):
            if self._serves(service, listener, is_first=number == 0):
                handlers = handlers_of(listener.name if number else "")
                server.add(service, guarded(service, handlers, authorizer), authorizer.audit.denied)

    def serve_kafka(self, service_of: Callable[[str], KafkaService]) -> None:
        """Serve Kafka's clients where `listener.protocols` says so. `service_of` gets the names of `add`."""
        if "kafka" not in self._config.listener_protocols:
            return
        for number, (listener, server) in enumerate(self._servers.items()):
            dispatcher = Dispatcher(service_of(listener.name if number else ""), new_handlers())
            server.serve_kafka(
                partial(KafkaTalk, dispatcher), grpc=not number or "grpc" in self._config.listener_protocols
            )

    def _serves(self, service: ServiceDescriptor, listener: Listener, *, is_first: bool) -> bool:
        if service in (methods.REPLICA, methods.PRESENCE):
            return is_first
        if service is methods.INSPECTION and self._config.inspection_listener_name:
            return listener.name == self._config.inspection_listener_name.upper()
        return True

    async def start(self) -> None:
        """Listen at all addresses. Raises INVALID_CONFIG if one cannot be bound."""
        for listener, server in self._servers.items():
            self.bound[listener.name] = await server.start()
            await server.set_serving(False, READY)
        addresses = {listener.name: listener.advertised or self.bound[listener.name] for listener in self._servers}
        first, *others = addresses
        self.address = addresses[first]
        self.endpoints = {name: addresses[name] for name in others}

    async def set_serving(self, serving: bool, *services: str) -> None:
        """Set the answer of health checks for these services; by default for all, and the whole process."""
        for server in self._servers.values():
            await server.set_serving(serving, *services)

    def connections(self) -> Metric:
        """Return the number of connections of each listener whose transport knows it."""
        known = {to.name: server.connections for to, server in self._servers.items() if server.connections is not None}
        name = "kafka_server_socket_server_metrics_connection_count"
        return labelled(GaugeMetricFamily, name, "Connections that are open", "listener", known)

    async def stop(self, grace_s: float) -> None:
        """Stop all servers at the same time, those that never listened, too."""
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.stop(grace_s))
