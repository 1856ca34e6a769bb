"""The controller and its service at one address; its terms among several controllers that share a store."""

import asyncio
import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import structlog
from prometheus_client.core import Metric

from replog.common.acl import Operation
from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.peer import Peer
from replog.rpc.tasks import end, for_good
from replog.rpc.transport import Transport
from replog.server.authorizer import Authorizer, guarded
from replog.server.clock import Clock
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.etcd.election import Election
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.metrics import controller_metrics
from replog.server.controller.service import ControllerService
from replog.server.controller.store import LeadershipLostError, MetadataStore
from replog.server.metrics.process import Room

log = structlog.get_logger()

STOP_GRACE_S = 2.0
FOLLOW_S = 0.25  # how often a standby looks at the store and at the leader's key
WARN_EVERY = 100  # failures in a row, since an etcd may be away for hours


class ControllerServer:
    """A controller and its server. Call `start()`, then `wait()` until it has failed, and `stop()`.

    One among several follows what the others commit until it is elected, decides until its lease is lost, and follows
    again. Each term has its own `controller`."""

    def __init__(
        self,
        config: ControllerConfig,
        store: MetadataStore,
        transport: Transport,
        clock: Clock,
        rng: random.Random,
        election: Election | None = None,
    ) -> None:
        """With an `election`, the store is an `EtcdStore` that other controllers use, too."""
        self._new_controller = partial(ActiveController, config, store, transport, clock, rng, election)
        self._config = config
        self._begin_term()
        self._store = store
        self._room = Room()
        self.address = ""
        self._telling: asyncio.Task[None] | None = None
        self._election = election
        self._running: asyncio.Task[None] | None = None
        self._failed = 0  # calls to etcd that failed in a row
        self._server = transport.listen(config.listeners)
        handlers = SimpleNamespace(**{name: partial(self._handle, name) for name in methods.Controller})
        self._server.add(methods.CONTROLLER, handlers, lambda *denial: self.controller.audit.denied(*denial))

    def _begin_term(self) -> None:
        self.controller = self._new_controller()
        self._authorizer = Authorizer(self._config, self.controller.state.image.acls, self.controller.audit)
        self._handlers = guarded(methods.CONTROLLER, ControllerService(self.controller), self._authorizer)

    def _handle(self, name: str, request: Any) -> Any:
        """Give a call to the controller of this term, even if the term ends meanwhile."""
        self.controller.check_active()  # the ACLs of one that does not decide may be old
        return getattr(self._handlers, name)(request)

    @property
    def decides(self) -> bool:
        """True if this controller is active, and may believe that it leads."""
        return self.controller.decides

    async def metrics(self, asks: Peer) -> list[Metric]:
        """Return metrics for `/metrics`. Raises CLUSTER_AUTHORIZATION_FAILED if the peer may not describe the
        cluster."""
        self._authorizer.check_cluster(asks, Operation.DESCRIBE, "/metrics")
        at_home = self._config.metadata_store == "sqlite"
        return [
            *await controller_metrics(self.controller),
            *await self._room.families([self._config.metadata_log_dir] if at_home else []),
        ]

    @property
    def epoch(self) -> int:
        """The epoch of this controller's last election; 0 if there are no other controllers."""
        return self._election.epoch if self._election is not None else 0

    async def start(self) -> None:
        """Become active, or read the metadata if there are other controllers; then serve. That waits until an etcd
        answers.

        Raises KAFKA_STORAGE_ERROR if there is no store or it is damaged, UNSUPPORTED_VERSION if a later release has
        written to it; call `stop` all the same."""
        if self._election is None:
            await self.controller.start()
        else:
            while not await self._followed():
                await asyncio.sleep(FOLLOW_S)
        self.address = await self._server.start()
        await self._server.set_serving(True)
        if self._election is not None:
            await self._report_role(False)
            self._running = asyncio.create_task(self._run_terms(self._election), name="terms")
        self._telling = for_good(self._report_when_behind(), "tell when behind")
        log.info("controller listening", address=self.address)

    async def _report_role(self, decides: bool) -> None:
        """Report a standby as healthy, otherwise it would be stopped or waited for; its service serves nobody."""
        if not self.controller.is_behind.is_set():
            await self._server.set_serving(decides, methods.CONTROLLER.full_name)

    async def _report_when_behind(self) -> None:
        """Report a controller that is behind as not serving. Its process stays: to start it again mends nothing."""
        await self.controller.is_behind.wait()
        await self._server.set_serving(False, "", methods.CONTROLLER.full_name)

    async def wait(self) -> None:
        """Wait after `start`. Raises NOT_CONTROLLER once another controller has taken over the store, or writes to it
        without leading; and as `start` if a shared store is gone or damaged, or of a later release."""
        if self._running is not None:
            await self._running
        error = await self.controller.failure
        raise ErrorCode.NOT_CONTROLLER.error(f"the controller stopped: {error}") from error

    async def stop(self) -> None:
        """Finish the decision under way, end every watch and call, close the store."""
        await end(*(task for task in (self._telling, self._running) if task is not None))
        await self.controller.stop()
        await self._server.stop(STOP_GRACE_S)
        if self._election is not None:
            await self._election.close()

    async def _run_terms(self, election: Election) -> None:
        while True:
            while not await self._elected(election):
                await self._followed()
                await asyncio.sleep(FOLLOW_S)
            log.info("this controller is elected", epoch=election.epoch)
            await self._lead(election)
            log.warning("this controller leads no longer", epoch=election.epoch)
            await asyncio.sleep(FOLLOW_S)  # a controller that cannot lead would otherwise be elected again at once

    async def _elected(self, election: Election) -> bool:
        try:
            return await election.stand()
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

    async def _lead(self, election: Election) -> None:
        controller = self.controller
        assert isinstance(self._store, EtcdStore)
        self._store.epoch = election.epoch
        holding = asyncio.create_task(election.hold(), name="hold the lease")
        try:
            await controller.start()
            await self._report_role(True)
            either: set[asyncio.Future[Any]] = {holding, controller.failure}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except (ReplogError, LeadershipLostError) as error:
            if isinstance(error, ReplogError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise
            log.warning("cannot lead", reason=str(error))
        finally:
            await self._report_role(False)
            await end(holding)
            await self._next_term()
            await election.resign()
        failure = controller.failure.result() if controller.failure.done() else None
        if failure is not None and not isinstance(failure, LeadershipLostError):
            raise ErrorCode.NOT_CONTROLLER.error(f"the controller stopped: {failure}") from failure

    async def _next_term(self) -> None:
        before = self.controller
        await before.stop()
        self._begin_term()
        self.controller.is_behind, self.controller.tally = before.is_behind, before.tally
