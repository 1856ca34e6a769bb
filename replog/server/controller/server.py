"""The controller and its service at one address."""

import random

import structlog

from replog.config import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transport import Transport
from replog.server.clock import Clock
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.service import ControllerService
from replog.server.controller.store import MetadataStore

log = structlog.get_logger()

STOP_GRACE_S = 2.0


class ControllerServer:
    """`start()`, then `wait()` until it has failed, and `stop()`."""

    def __init__(
        self, config: ControllerConfig, store: MetadataStore, transport: Transport, clock: Clock, chance: random.Random
    ) -> None:
        self.controller = ActiveController(config, store, transport, clock, chance)
        self.address = ""
        self._server = transport.listen(config.listeners)
        self._server.add(methods.CONTROLLER, ControllerService(self.controller))

    async def start(self) -> None:
        """Become active, then serve. Raises ReplogError when it cannot; call `stop` all the same."""
        await self.controller.start()
        self.address = await self._server.start()
        await self._server.set_serving(True)
        log.info("controller listening", address=self.address)

    async def wait(self) -> None:
        """Raises NOT_CONTROLLER once the controller must not go on: another has taken over its store."""
        error = await self.controller.failure
        raise ReplogError(ErrorCode.NOT_CONTROLLER, f"the controller stopped: {error}") from error

    async def stop(self) -> None:
        """Finish the decision under way, end every watch and call, close the store."""
        await self.controller.stop()
        await self._server.stop(STOP_GRACE_S)
