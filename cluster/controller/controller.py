"""The active controller: decides, makes durable, applies, tells the watchers, answers; in that order, one at a time."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from cluster.clock import Clock
from cluster.controller.cluster_state import ClusterState
from cluster.controller.records import Decision, cluster_record, number
from cluster.controller.store import MetadataStore
from replog.config import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import controller_pb2, metadata_pb2

log = structlog.get_logger()

A = TypeVar("A")

SIGN_OF_LIFE_S = 1.0
MAX_WATCHERS = 4000
DELTA_RECORDS = 2000  # of one message, and
DELTA_BYTES = 1 << 20  # about so many bytes
CHECKS_PER_SESSION = 10
LOGGED_KEYS = 4  # of one decision


class Controller:
    """Owns the store from `start` to `stop`. `failure` is set when it must not go on: the process should end."""

    def __init__(self, config: ControllerConfig, store: MetadataStore, clock: Clock, chance: random.Random) -> None:
        self.state = ClusterState(config, chance)
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._config = config
        self._store = store
        self._clock = clock
        self._chance = chance
        self._deciding = asyncio.Lock()
        self._executor = ThreadPoolExecutor(1, "metadata-store")
        self._changed = asyncio.Event()
        self._watchers = 0
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
        self._active = True
        if not self.state.image.cluster_id:
            cluster_id = new_cluster_id(self._chance)
            await self.decide(lambda _: Decision([cluster_record(cluster_id)], None))
        log.info("controller active", cluster_id=self.state.image.cluster_id, version=self.state.image.version)
        self._ran_ms = self._clock.monotonic_ms()
        self._tasks = [
            asyncio.create_task(self._keep_running(), name="keep running"),
            asyncio.create_task(self._expire_sessions(), name="expire sessions"),
            asyncio.create_task(
                self._hold_elections(
                    self._config.unclean_leader_election_interval_ms / 1000,
                    self.state.retry_unclean_elections,
                    "unclean leader elections held again",
                ),
                name="unclean elections",
            ),
        ]
        if self._config.auto_leader_rebalance_enable:
            rebalance = self._hold_elections(
                self._config.leader_imbalance_check_interval_seconds,
                self.state.rebalance_leaders,
                "leadership given back to preferred replicas",
            )
            self._tasks.append(asyncio.create_task(rebalance, name="rebalance leaders"))

    async def stop(self) -> None:
        """Finish the decision under way, end every watch, close the store."""
        self._active = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._deciding:
            self._wake_watchers()
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

    async def decide(self, decision: Callable[[int], Decision[A]]) -> A:
        """Make one decision, given the time in monotonic milliseconds. Once begun it is carried through, whoever goes.

        Raises what `decision` raises; KAFKA_STORAGE_ERROR, with nothing changed, when it cannot be made durable;
        NOT_CONTROLLER when this controller is not active.
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

    async def _carry_through(self, records: list[metadata_pb2.MetadataRecord]) -> None:
        try:
            await self._commit(records)
        finally:
            self._deciding.release()

    async def _commit(self, records: list[metadata_pb2.MetadataRecord]) -> None:
        version = self.state.image.version
        number(records, version)
        unclean = self.state.unclean_elections(records)
        try:
            await self._in_store(self._store.commit, version, records)
            self.state.apply(records, self._clock.monotonic_ms())
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
        self._wake_watchers()

    async def _in_store(self, call: Callable[..., A], *arguments: object) -> A:
        """Disk work waits in a thread, so that heartbeats and signs of life do not wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)

    def _check_active(self) -> None:
        if not self._active:
            raise ReplogError(ErrorCode.NOT_CONTROLLER, "this controller is starting or stopping; try again")

    def _fail(self, error: BaseException) -> None:
        """Somebody else decides, or this controller is broken: decide nothing more."""
        log.error("controller failed", error=str(error))
        self._active = False
        if not self.failure.done():
            self.failure.set_result(error)
        self._wake_watchers()

    async def watch(self, after_version: int) -> AsyncIterator[controller_pb2.MetadataDelta]:
        """Every change after `after_version` in version order, only the newest of each key, then live.

        Ends when the controller stops. A delta without records comes each second that brings no other.
        Nothing is queued for a slow watcher: what it has not seen is found by version when it comes back for more.
        Raises INVALID_REQUEST, NOT_CONTROLLER.
        """
        self._check_active()
        if after_version < 0:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"after_version {after_version} < 0; 0 is the beginning")
        self.state.check_version_known(after_version)
        if self._watchers >= MAX_WATCHERS:
            raise ReplogError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"{MAX_WATCHERS} watch already, and that is the most; try again"
            )
        self._watchers += 1
        try:
            sent = after_version
            while self._active:
                changed = self._changed
                newer = self.state.records.after(sent)
                latest = self.state.image.version
                for records in _in_deltas(newer):
                    sent = records[-1].version
                    yield controller_pb2.MetadataDelta(version=sent, records=records, latest_version=latest)
                if newer:
                    continue
                try:
                    async with asyncio.timeout(SIGN_OF_LIFE_S):
                        await changed.wait()
                except TimeoutError:
                    yield controller_pb2.MetadataDelta(version=sent, latest_version=sent)
        finally:
            self._watchers -= 1

    def _wake_watchers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

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

    async def _hold_elections(self, interval_s: float, elections: Callable[[], Decision[int]], what: str) -> None:
        """Elections of the controller's own accord, round after round (CT-12)."""

        async def held() -> None:
            while count := await self.decide(lambda _: elections()):
                log.info(what, partitions=count)

        while self._active:
            await asyncio.sleep(interval_s)
            await self._retried(held)

    async def _retried(self, work: Callable[[], Awaitable[None]]) -> None:
        """One round of background work. What the store refuses is tried again next time; a defect is the end."""
        try:
            await work()
        except ReplogError as error:
            log.warning("background work put off", reason=str(error))
        except Exception as error:  # noqa: BLE001 (a controller that cannot fence must not stay)
            self._fail(error)


def _in_deltas(records: list[metadata_pb2.MetadataRecord]) -> list[list[metadata_pb2.MetadataRecord]]:
    """`records` in pieces that each fit a message."""
    pieces: list[list[metadata_pb2.MetadataRecord]] = []
    size = 0
    for record in records:
        record_size = record.ByteSize()
        if not pieces or len(pieces[-1]) == DELTA_RECORDS or size + record_size > DELTA_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(record)
        size += record_size
    return pieces


def new_cluster_id(chance: random.Random) -> str:
    """16 random bytes as 22 characters, like Kafka's; never one that looks like a command-line option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
