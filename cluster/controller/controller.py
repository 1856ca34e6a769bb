"""The active controller: decides, makes durable, applies, tells the watchers, answers; in that order, one at a time."""

import asyncio
import base64
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from cluster.clock import Clock
from cluster.controller.cluster_state import ClusterState
from cluster.controller.inquiries import Inquiries
from cluster.controller.records import Decision, cluster_record, numbered
from cluster.controller.store import MetadataStore
from cluster.controller.watchers import Watchers
from cluster.slices import in_slices
from replog.config import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata import Broker
from replog.rpc.transport import Transport
from replog.rpc.v1 import controller_pb2, metadata_pb2

log = structlog.get_logger()

A = TypeVar("A")

CHECKS_PER_SESSION = 10
COLLECT_INTERVAL_S = 3.0
LOGGED_KEYS = 4  # of one decision


class Controller:
    """Owns the store from `start` to `stop`. `failure` is set when it must not go on: the process should end."""

    def __init__(
        self, config: ControllerConfig, store: MetadataStore, transport: Transport, clock: Clock, chance: random.Random
    ) -> None:
        self.state = ClusterState(config, chance)
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._config = config
        self._store = store
        self._clock = clock
        self._chance = chance
        self._deciding = asyncio.Lock()
        self._executor = ThreadPoolExecutor(1, "metadata-store")
        self._watchers = Watchers(self.state, self._on_lost)
        self._inquiries = Inquiries(transport, self._is_missing, self._fence_gone)
        self._active = False
        self._tasks: list[asyncio.Task[None]] = []
        self._check_s = max(1, config.broker_session_timeout_ms // CHECKS_PER_SESSION) / 1000
        self._ran_ms = clock.monotonic_ms()  # when this process was last known to run

    async def start(self) -> None:
        """Take in the store and become active; a new store becomes a new cluster.

        Raises KAFKA_STORAGE_ERROR when the store cannot be read or written.
        """
        records = await self._in_store(self._store.load)
        self.state.load(records, self._clock.monotonic_ms())
        self._active = self._watchers.open = True
        if not self.state.image.cluster_id:
            cluster_id = new_cluster_id(self._chance)
            await self.decide(lambda _: Decision([cluster_record(cluster_id)], None))
        log.info("controller active", cluster_id=self.state.image.cluster_id, version=self.state.image.version)
        self._ran_ms = self._clock.monotonic_ms()
        self._tasks = [
            asyncio.create_task(self._keep_running(), name="keep running"),
            asyncio.create_task(self._expire_sessions(), name="expire sessions"),
            asyncio.create_task(
                self._in_rounds(
                    self._config.unclean_leader_election_interval_ms / 1000,
                    self.state.retry_unclean_elections,
                    "unclean leader elections held again",
                ),
                name="unclean elections",
            ),
            asyncio.create_task(
                self._in_rounds(COLLECT_INTERVAL_S, self.state.collect_tombstones, "deletions forgotten"),
                name="collect tombstones",
            ),
        ]
        if self._config.auto_leader_rebalance_enable:
            rebalance = self._in_rounds(
                self._config.leader_imbalance_check_interval_seconds,
                self.state.rebalance_leaders,
                "leadership given back to preferred replicas",
            )
            self._tasks.append(asyncio.create_task(rebalance, name="rebalance leaders"))

    async def stop(self) -> None:
        """Finish the decision under way, end every watch, close the store."""
        self._active = self._watchers.open = False
        await self._inquiries.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._deciding:
            self._watchers.wake()
            await self._in_store(self._store.close)
        self._executor.shutdown()

    async def heartbeat(self, request: controller_pb2.HeartbeatRequest) -> controller_pb2.HeartbeatResponse:
        """A broker is heard of before anything is waited for: no commit under way, however slow, can end its session.

        A heartbeat that changes nothing, as most, is answered from what is applied; others wait for their turn.
        Raises as `ClusterState.heartbeat` and `decide`.
        """
        self._check_active()
        heard = self.state.heartbeat(request, self._clock.monotonic_ms())
        answer = heard.answer
        if heard.records:
            answer = await self.decide(lambda now_ms: self.state.heartbeat(request, now_ms))
        if answer.should_shutdown:
            self.state.let_go(request.broker_id)
        return answer

    async def present_heirs(self, request: controller_pb2.AlterPartitionRequest) -> frozenset[int]:
        """Of those who could lead what a leader gives away by this request, who answers now (CT-22).

        Raises as `ClusterState.heirs`, and NOT_CONTROLLER when this controller is not active.
        """
        self._check_active()
        return await self._inquiries.present(self.state.heirs(request))

    async def decide(self, decision: Callable[[int], Decision[A]]) -> A:
        """Make one decision, given the time in monotonic milliseconds. Once begun it is carried through, whoever goes.

        What it makes of thousands of partitions is made in slices, and heartbeats are answered between them; the lock
        keeps the metadata as they are until then. Raises what `decision` raises; KAFKA_STORAGE_ERROR, with nothing
        changed, when it cannot be made durable; NOT_CONTROLLER when this controller is not active.
        """
        await self._deciding.acquire()
        carried_through: asyncio.Future[None] | None = None
        try:
            self._check_active()
            decided = decision(self._clock.monotonic_ms())
            if decided.records:
                carried_through = asyncio.ensure_future(self._carry_through(decided.records))
        finally:
            if carried_through is None:
                self._deciding.release()
        if carried_through is not None:
            await asyncio.shield(carried_through)
        return decided.answer

    async def _carry_through(self, records: Iterable[metadata_pb2.MetadataRecord | None]) -> None:
        try:
            await self._commit(records)
        finally:
            self._deciding.release()

    async def _commit(self, wanted: Iterable[metadata_pb2.MetadataRecord | None]) -> None:
        version = self.state.image.version
        changes = [change async for change in in_slices(numbered(wanted, version)) if change is not None]
        if not changes:
            return
        records = [change.record for change in changes]
        unclean = self.state.unclean_elections(changes)
        try:
            await self._in_store(self._store.commit, version, records, self.state.forgotten_by(changes))
            self.state.apply(changes, self._clock.monotonic_ms())
            await asyncio.sleep(0)  # of 10,000 partitions this is 40 ms, and what comes next 20
            self.state.records.put(records)
        except ReplogError:
            raise  # nothing was written
        except Exception as error:
            self._fail(error)
            raise ReplogError(ErrorCode.NOT_CONTROLLER, f"this controller must stop: {error}") from error
        log.info("metadata changed", version=records[-1].version, keys=[r.key for r in records[:LOGGED_KEYS]])
        if unclean:
            log.warning(
                "unclean leader elections: committed records may be lost",
                count=len(unclean),
                partitions=[f"{tp} led by {leader}" for tp, leader in unclean[:LOGGED_KEYS]],
            )
        self._watchers.wake()

    async def _in_store(self, call: Callable[..., A], *arguments: object) -> A:
        """Disk work waits in a thread, so that heartbeats and signs of life do not wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)

    def _check_active(self) -> None:
        if not self._active:
            raise ReplogError(ErrorCode.NOT_CONTROLLER, "this controller is starting or stopping; try again")

    def _fail(self, error: BaseException) -> None:
        """Somebody else decides, or this controller is broken: decide nothing more."""
        log.error("controller failed", error=str(error))
        self._active = self._watchers.open = False
        if not self.failure.done():
            self.failure.set_result(error)
        self._watchers.wake()

    def watch(self, request: controller_pb2.WatchMetadataRequest) -> AsyncGenerator[controller_pb2.MetadataDelta, None]:
        """As `Watchers.watch`."""
        self._check_active()
        return self._watchers.watch(request)

    def _on_lost(self, broker: Broker) -> None:
        if not broker.fenced:
            self._inquiries.begin(broker)

    def _is_missing(self, broker: Broker) -> bool:
        known = self.state.image.broker(broker.broker_id)
        registered = known is not None and known.incarnation_id == broker.incarnation_id and not known.fenced
        return self._active and registered and not self._watchers.listens(broker)

    async def _fence_gone(self, broker: Broker) -> None:
        async def fence() -> None:
            if await self.decide(lambda _: self.state.fence_gone(broker)):
                log.warning("broker fenced: its process is gone", broker=broker.broker_id)

        await self._retried(fence)

    async def _keep_running(self) -> None:
        """Notices when this process was paused or starved, also while a commit is waited for."""
        while self._active:
            await asyncio.sleep(self._check_s)
            self._note_running()

    def _note_running(self) -> None:
        now_ms = self._clock.monotonic_ms()
        late_ms = now_ms - self._ran_ms - int(2000 * self._check_s)
        self._ran_ms = now_ms
        if late_ms > 0:  # the brokers could not be heard
            log.warning("controller did not run, sessions extended", late_ms=late_ms)
            self.state.excuse_silence(late_ms)

    async def _expire_sessions(self) -> None:
        while self._active:
            await asyncio.sleep(self._check_s)
            await self._retried(self._fence_expired)

    async def _fence_expired(self) -> None:
        while (broker_id := await self.decide(self._fence_next_expired)) is not None:
            log.warning("broker fenced: its session expired", broker=broker_id)

    def _fence_next_expired(self, now_ms: int) -> Decision[int | None]:
        self._note_running()  # a commit was waited for before, maybe through a pause
        return self.state.fence_next_expired(now_ms)

    async def _in_rounds(self, interval_s: float, work: Callable[[], Decision[int]], what: str) -> None:
        """What the controller does of its own accord, as its elections (CT-12): round after round, some at a time."""

        async def a_round() -> None:
            while count := await self.decide(lambda _: work()):
                log.info(what, count=count)

        while self._active:
            await asyncio.sleep(interval_s)
            await self._retried(a_round)

    async def _retried(self, work: Callable[[], Awaitable[None]]) -> None:
        """One round of background work. What the store refuses is tried again next time; a defect is the end."""
        try:
            await work()
        except ReplogError as error:
            log.warning("background work put off", reason=str(error))
        except Exception as error:  # noqa: BLE001 (a controller that cannot fence must not stay)
            self._fail(error)


def new_cluster_id(chance: random.Random) -> str:
    """16 random bytes as 22 characters, like Kafka's; never one that looks like a command-line option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
