"""The parts of a broker share its context, and none of them owns it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import RetriableLogError
from replog.metadata.image import MetadataImage
from replog.server.authorizer import AuditLog, Authorizer
from replog.server.broker.traffic import Traffic
from replog.server.clock import Clock, TrustedTime
from replog.server.work import Throttle

log = structlog.get_logger()


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

    @contextmanager
    def storage_errors_reported(self, work: str) -> Iterator[None]:
        """Report an error of a file. Without room the work is left for the next time: a checkpoint stays as it was, and
        only a start after a crash has more to do. Otherwise a full disk would stop replicas that need no room."""
        try:
            yield
        except ReplogError as error:
            if isinstance(error, RetriableLogError):
                log.warning("left for the next time", work=work, reason=error.message)
            elif error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self.on_storage_error(error)
            else:
                raise
