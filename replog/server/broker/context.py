"""The parts of a broker share its context, and none of them owns it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from replog.config.processes import BrokerConfig
from replog.errors import ReplogError
from replog.metadata.image import MetadataImage
from replog.server.authorizer import AuditLog, Authorizer
from replog.server.broker.traffic import Traffic
from replog.server.clock import Clock, TrustedTime
from replog.server.slices import Throttle


@dataclass(slots=True)
class BrokerContext:
    """A broker's settings, metadata and clock, and what follows from them. `on_storage_error` takes every error of a
    file, and decides what goes offline (CT-27)."""

    config: BrokerConfig
    image: MetadataImage
    clock: Clock
    on_storage_error: Callable[[ReplogError], None]
    time: TrustedTime = field(init=False)
    traffic: Traffic = field(init=False)
    throttle: Throttle = field(init=False)
    authorizer: Authorizer = field(init=False)

    def __post_init__(self) -> None:
        self.time = TrustedTime(self.clock)
        self.traffic = Traffic(self.clock, self.image)
        self.throttle = Throttle(self.clock)
        self.authorizer = Authorizer(self.config, self.image.acls, AuditLog(self.clock))
