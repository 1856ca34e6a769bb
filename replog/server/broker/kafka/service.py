"""The things of a broker that handlers of Kafka's APIs need; one for each listener."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from replog.rpc.transport import Transport
from replog.server.broker.clients.quotas import ClientQuotas
from replog.server.broker.context import BrokerContext
from replog.server.broker.control.controller_link import ControllerLink
from replog.server.broker.control.producer_id_blocks import ProducerIds
from replog.server.broker.disks.log_dirs_service import LogDirsService
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.look_ups import LookUps
from replog.server.broker.replicas.replica_manager import ReplicaManager


@dataclass(eq=False, slots=True, kw_only=True)
class KafkaService:
    manager: ReplicaManager
    producer_ids: ProducerIds
    quotas: ClientQuotas
    look_ups: LookUps
    log_dirs: LogDirsService
    controller: ControllerLink
    transport: Transport  # connects to other brokers
    until: Callable[[Callable[[], bool]], Awaitable[None]]  # returns once it is true of the metadata here
    randbytes: Callable[[int], bytes]
    kept: dict[str, Any] = field(init=False, default_factory=dict)  # handlers keep things here, by their API's name
    listener: str = ""  # the name of the listener that serves it; empty: that between brokers

    @property
    def context(self) -> BrokerContext:
        """Settings, image, clock, traffic, authorizer."""
        return self.manager.context

    @property
    def replicas(self) -> HostedReplicas:
        return self.manager.replicas
