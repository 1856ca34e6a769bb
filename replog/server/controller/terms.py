"""The terms of a controller among several that share a store: it follows what the others commit until it is elected,
decides until its lease is lost, and follows again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from replog.errors import ErrorCode, ReplogError
from replog.rpc.tasks import end
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.etcd.election import Election
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.store import LeadershipLostError

log = structlog.get_logger()

FOLLOW_S = 0.25  # how often it looks at the store and at the leader's key
WARN_EVERY = 100  # failures in a row, since an etcd may be away for hours


class Terms:
    """Call `begin`, then `run`. Each term has its own `controller`, which follows before it leads."""

    def __init__(
        self,
        store: EtcdStore,
        election: Election,
        new_controller: Callable[[], ActiveController],
        on_change: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`on_change` is called with True when the controller begins to decide, and with False when it ends."""
        self.controller = new_controller()
        self._store = store
        self._election = election
        self._new_controller = new_controller
        self._on_change = on_change
        self._failed = 0  # calls to etcd that failed in a row

    async def begin(self) -> None:
        """Take in the store, as soon as an etcd answers. Raises KAFKA_STORAGE_ERROR if there is none or it is damaged,
        UNSUPPORTED_VERSION if a later release has written to it."""
        while not await self._followed():
            await asyncio.sleep(FOLLOW_S)

    async def run(self) -> None:
        """Follow and lead until cancelled. Raises as `begin`, and NOT_CONTROLLER if another writes without leading."""
        while True:
            while not await self._elected():
                await self._followed()
                await asyncio.sleep(FOLLOW_S)
            log.info("this controller is elected", epoch=self._election.epoch)
            await self._lead()
            log.warning("this controller leads no longer", epoch=self._election.epoch)
            await asyncio.sleep(FOLLOW_S)  # a controller that cannot lead would otherwise be elected again at once

    async def _elected(self) -> bool:
        try:
            return await self._election.stand()
        except ReplogError as error:
            self._warn("cannot ask etcd who leads", error)
            return False

    async def _followed(self) -> bool:
        """Take in what is committed. Return True if this controller knows all of it."""
        try:
            await self.controller.follow()
        except LeadershipLostError as error:
            log.warning("reading everything again", reason=str(error))
            await self._next_term()
            return False
        except ReplogError as error:
            if error.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNSUPPORTED_VERSION):
                raise
            self._warn("cannot follow the metadata in etcd", error)
            return False
        self._failed = 0
        return True

    def _warn(self, event: str, error: ReplogError) -> None:
        if self._failed % WARN_EVERY == 0:
            log.warning(event, reason=str(error), failed_before=self._failed)
        self._failed += 1

    async def _lead(self) -> None:
        controller = self.controller
        self._store.epoch = self._election.epoch
        holding = asyncio.create_task(self._election.hold(), name="hold the lease")
        try:
            await controller.start()
            await self._on_change(True)
            either: set[asyncio.Future[Any]] = {holding, controller.failure}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except (ReplogError, LeadershipLostError) as error:
            if isinstance(error, ReplogError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise
            log.warning("cannot lead", reason=str(error))
        finally:
            await self._on_change(False)
            await end(holding)
            await self._next_term()
            await self._election.resign()
        failure = controller.failure.result() if controller.failure.done() else None
        if failure is not None and not isinstance(failure, LeadershipLostError):
            raise ErrorCode.NOT_CONTROLLER.error(f"the controller stopped: {failure}") from failure

    async def _next_term(self) -> None:
        await self.controller.stop()
        self.controller = self._new_controller()
