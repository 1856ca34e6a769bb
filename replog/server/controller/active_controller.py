"""The active controller: decides, makes durable, applies, sends, answers; in that order, one at a time."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

import structlog

from replog.config.processes import ControllerConfig
from replog.controller.alter_partition import Proposal
from replog.controller.broker_lifecycle import Heartbeat, HeartbeatAnswer
from replog.controller.cluster_state import ClusterState
from replog.controller.decision import Decision, numbered
from replog.controller.partition_history import PartitionChange, PartitionHistory
from replog.controller.registration import Registration
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import Position
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.records import all_known, position_from_message, published, record_of
from replog.metadata.values import BrokerRegistration, Claim, PartitionState
from replog.rpc.tasks import end, for_good, may_fail_unheard
from replog.rpc.transport import Transport, always
from replog.rpc.v1 import controller_pb2
from replog.rpc.v1 import metadata_pb2 as pb
from replog.server.authorizer import AuditLog
from replog.server.clock import Clock
from replog.server.controller.etcd.election import Election
from replog.server.controller.inquiries import Inquiries
from replog.server.controller.store import MetadataStore
from replog.server.controller.watchers import CurrentRecords, Watchers
from replog.server.work import SLICE, in_slices
from replog.topic import TopicPartition

log = structlog.get_logger()

A = TypeVar("A")

COLLECT_INTERVAL_S = 3.0
LOG_ENDS_S = 5.0  # two heartbeats and some more
LOOK_S = 0.1
COME_AFTER_S = 1.0  # how long brokers take to open their metadata streams to a new active controller
LOGGED_KEYS = 4  # keys of a decision that are logged
SESSION_EXPIRED = "the session of a broker expired"


class ActiveController:
    """Owns the store from `start` to `stop`. `failure` is set when it must not go on: the process should end."""

    def __init__(
        self,
        config: ControllerConfig,
        store: MetadataStore,
        transport: Transport,
        clock: Clock,
        rng: random.Random,
        election: Election | None = None,
    ) -> None:
        """Without an `election` there is no other controller."""
        self.state = ClusterState(config, rng)
        self.records = CurrentRecords()
        self.history = PartitionHistory()
        self.decides_since_ms = 0  # wall time; 0: it does not decide
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.is_behind = asyncio.Event()  # a broker knows newer metadata: nothing is decided any more
        self.tally = Counter[str]()  # counts since the start of the process, over all its terms
        self._refusal: ReplogError | None = None  # the answer to everybody when it is behind
        self._config = config
        self._store = store
        self.clock = clock
        self.audit = AuditLog(clock)
        self._election = election
        self._leads = election.leads if election is not None else always
        self._deciding = asyncio.Lock()
        self._watchers = Watchers(self.state, self.records, self._on_lost, self._leads)
        self._inquiries = Inquiries(transport, rng, self._is_missing, self._fence_gone)
        self._active = False
        self._tasks: list[asyncio.Task[None]] = []
        self._check_s = self.state.sessions.check_ms / 1000

    async def start(self) -> None:
        """Take in the store and become active. Raises KAFKA_STORAGE_ERROR if the store cannot be read or written."""
        await self.follow()
        self.state.load((), self.clock.monotonic_ms())
        self._active = self._watchers.open = True
        self.decides_since_ms = self.clock.wall_ms()
        await self.decide(lambda _: self.state.begin_history())
        log.info("controller active", cluster_id=self.state.image.cluster_id, version=self.state.image.version)
        self._note_running()
        self._tasks = [
            for_good(self._keep_running(), "keep running"),
            for_good(self._every(self._check_s, self._fence_expired), "expire sessions"),
            for_good(self._ask_who_is_gone(), "ask who is gone"),
        ]
        recover_s = self._config.unclean_leader_election_interval_ms / 1000
        self._begin_rounds(recover_s, self.state.recover, "elected by what replicas say of their logs")
        self._begin_rounds(COLLECT_INTERVAL_S, lambda _: self.state.collect_tombstones(), "deletions forgotten")
        if self._config.auto_leader_rebalance_enable:
            rebalance_s = self._config.leader_imbalance_check_interval_seconds
            what = "leadership given back to preferred replicas"
            self._begin_rounds(rebalance_s, lambda _: self.state.rebalance_leaders(), what)

    async def follow(self) -> None:
        """Take in what is new in the store, before this controller is active. Raises as the store's `load`, and
        UNSUPPORTED_VERSION, after which the records just read do not come again; KAFKA_STORAGE_ERROR for partitions
        without their topic, whose replicas brokers would set aside."""
        is_first = not self.state.image.version
        async for record in in_slices(await self._store.load()):
            change, newer = all_known(record), CurrentRecords()
            newer.put([published(record)])
            self.records.take_over(newer, self.state.forgotten_by([change]))
            self.state.follow(change)
        image = self.state.image
        if is_first and (stray := next((tp for tp in image.partitions if tp.topic not in image.topics), None)):
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(
                f"the metadata store is damaged: partition {stray} has no topic; restore a copy: replog controller "
                "restore"
            )

    async def stop(self) -> None:
        """Finish the decision under way, end every watch, close the store."""
        self._active = self._watchers.open = False
        await self._inquiries.close()
        await end(*self._tasks)
        async with self._deciding:
            self._watchers.wake()
            await self._store.close()

    async def register(self, request: Registration) -> int:
        """Return the broker epoch. A process that is in the way is asked at once whether it is gone (CT-21).

        Raises as `ClusterState.register_broker` and `decide`."""
        try:
            why = f"broker {request.broker_id} registered"
            return await self.decide(lambda now_ms: self.state.register_broker(request, now_ms), why)
        except ReplogError as error:
            if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                self._inquiries.begin(self.state.image.brokers[request.broker_id])
            raise

    async def heartbeat(self, request: Heartbeat) -> HeartbeatAnswer:
        """Renew the session of a broker before waiting for anything: otherwise a slow commit could end it.

        A heartbeat that changes nothing, like most, is answered from what is applied. Others wait for their turn.
        Raises as `ClusterState.heartbeat` and `decide`."""
        self.check_active()
        heard = self.state.heartbeat(request, self.clock.monotonic_ms())
        answer = heard.answer
        if heard.changes:
            sender = self.state.image.brokers[request.sender.broker_id]
            wants = "is up" if sender.fenced else "has replicas that failed"
            wants = "wants to stop" if request.want_shutdown else "asks to be fenced" if request.want_fence else wants
            why = f"broker {sender.broker_id} {wants}"
            answer = await self.decide(lambda now_ms: self.state.heartbeat(request, now_ms), why)
        if answer.should_shutdown:
            self.state.sessions.end(request.sender.broker_id)  # otherwise its successor would wait for its end
        return answer

    async def present_candidates(self, sender: Claim, proposals: Iterable[Proposal]) -> frozenset[int]:
        """Return the brokers that could lead what a leader gives away, and that answer now (CT-22).

        Raises as `ClusterState.candidates`, and NOT_CONTROLLER if this controller is not active."""
        self.check_active()
        return await self._inquiries.present(self.state.candidates(sender, proposals))

    async def wait_for_log_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until all live replicas of those `partitions` that have no leader have said how far they go, for at most
        `LOG_ENDS_S` (CT-30)."""
        waiting = [tp async for tp in in_slices(partitions) if not self.state.is_told(tp)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOG_ENDS_S):
                while waiting:
                    await asyncio.sleep(LOOK_S)
                    waiting = [tp async for tp in in_slices(waiting) if not self.state.is_told(tp)]

    async def decide(self, decision: Callable[[int], Decision[A]], why: str = "") -> A:
        """Make one decision, given the time in monotonic milliseconds. `why` is for people, in the partitions' history.

        A decision that has begun is completed even if its caller is gone. Thousands of changes are made in slices, and
        heartbeats are answered between them; the lock keeps the metadata as they are until then.
        Raises as `decision`; KAFKA_STORAGE_ERROR, with nothing changed, if it cannot be made durable; NOT_CONTROLLER if
        this controller is not active."""
        await self._deciding.acquire()
        carried_through: asyncio.Task[None] | None = None
        try:
            self.check_active()
            decided = decision(self.clock.monotonic_ms())
            if decided.changes:
                carried_through = may_fail_unheard(self._carry_through(decided.changes, why))
        finally:
            if carried_through is None:
                self._deciding.release()
        if carried_through is not None:
            await asyncio.shield(carried_through)
        return decided.answer

    async def _carry_through(self, wanted: Iterable[Change | None], why: str) -> None:
        try:
            await self._commit(wanted, why)
        finally:
            self._deciding.release()

    async def _commit(self, wanted: Iterable[Change | None], why: str) -> None:
        version = self.state.image.version
        batch, records, newer = Batch(self.state.image), list[pb.MetadataRecord](), CurrentRecords()
        async for change in in_slices(numbered(wanted, version)):
            if change is not None:
                batch.add(change)
                record = record_of(change)
                records.append(record)
                newer.put([published(record)])
        if not records:
            return
        changed = self._changed_partitions(batch.changes, why)
        unclean, forgotten = self.state.unclean_elections(batch.changes), self.state.forgotten_by(batch.changes)
        committed = False
        try:
            await self._store.commit(version, records, forgotten)
            committed = True
            self.state.apply(batch, self.clock.monotonic_ms())
            await asyncio.sleep(0)  # one step takes 40 ms with 10,000 old partitions; the next waits for a turn
            gone = self.records.take_over(newer, forgotten)
        except Exception as error:
            if isinstance(error, ReplogError) and not committed:
                raise  # nothing was written
            self._fail(error)
            raise ErrorCode.NOT_CONTROLLER.error(f"this controller must stop: {error}") from error
        log.info("metadata changed", version=records[-1].version, keys=[r.key for r in records[:LOGGED_KEYS]])
        if unclean:
            self.tally["unclean elections"] += len(unclean)
            log.warning(
                "unclean leader elections: committed records may be lost",
                count=len(unclean),
                partitions=[f"{tp} led by {leader}" for tp, leader in unclean[:LOGGED_KEYS]],
            )
        self._watchers.wake()
        async for one in in_slices(changed):
            self.history.add(one)
        while gone:
            await asyncio.sleep(0)
            del gone[-SLICE:]

    def _changed_partitions(self, changes: Iterable[Change], why: str) -> list[PartitionChange]:
        """Return the history's entries for `changes`, which are not yet applied. Deleted topics are forgotten."""
        states, now_ms = self.state.image.partitions, self.clock.wall_ms()
        newest: dict[TopicPartition, PartitionState] = {}
        changed = []
        for kind, name, value, _, version in changes:
            if kind == "partition" and value is not None:
                before = newest.get(name) or states.get(name)
                newest[name] = value
                if before is not None:
                    changed.append(PartitionChange(version, now_ms, name, why, before, value))
            elif kind == "topic" and value is None:
                self.history.forget(self.state.image.index.of_topic(name))
        return changed

    def check_known(self, known: Position) -> None:
        """Compare the metadata that a caller knows with this controller's, before anything else.

        Raises as `ClusterState.check_known`, and NOT_CONTROLLER if this controller is not active."""
        self.check_active()
        try:
            self.state.check_known(known)
        except ReplogError as error:
            if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
                log.error("nothing is decided any more", reason=error.message)
                self._refusal = error
                self._active = self._watchers.open = False
                self._watchers.wake()
                self.is_behind.set()
            raise

    @property
    def decides(self) -> bool:
        return self._active and self._leads()

    def check_active(self) -> None:
        """Raises NOT_CONTROLLER unless this controller decides, and again the error that `check_known` once raised."""
        if self._refusal is not None:
            raise ReplogError(self._refusal.code, self._refusal.message)
        if not self.decides:
            leader = self._election.leader if self._election is not None else ""
            raise ErrorCode.NOT_CONTROLLER.error(
                f"this controller does not decide: {leader} does"
                if leader
                else "this controller does not decide, and knows of no other that does: it is starting or stopping, "
                "or etcd does not answer; try again",
                instead=leader,
            )

    def _fail(self, error: BaseException) -> None:
        """Decide nothing more: another controller decides, or this one is broken."""
        log.error("controller failed", error=str(error))
        self._active = self._watchers.open = False
        if not self.failure.done():
            self.failure.set_result(error)
        self._watchers.wake()

    def watch(self, request: controller_pb2.WatchMetadataRequest) -> AsyncGenerator[controller_pb2.MetadataDelta, None]:
        """Watch like `Watchers.watch`. Raises as `check_known`, too."""
        self.check_known(position_from_message(request.known))
        return self._watchers.watch(request)

    def _on_lost(self, broker: BrokerRegistration) -> None:
        if not broker.fenced:
            self._inquiries.begin(broker)

    def _is_missing(self, broker: BrokerRegistration) -> bool:
        has_its_place = self.state.has_its_place(broker, self.clock.monotonic_ms())
        return self._active and has_its_place and not self._watchers.listens(broker)

    async def _fence_gone(self, broker: BrokerRegistration) -> None:
        async def fence() -> None:
            why = f"the process of broker {broker.broker_id} is gone"
            if await self.decide(lambda now_ms: self.state.fence_gone(broker, now_ms), why):
                log.warning("broker fenced: its process is gone", broker=broker.broker_id)

        await self._retried(fence)

    async def _keep_running(self) -> None:
        """Notice when this process was paused or starved, also during a commit."""
        while self._active:
            await asyncio.sleep(self._check_s)
            self._note_running()

    def _note_running(self) -> None:
        if late_ms := self.state.sessions.note_running(self.clock.monotonic_ms()):
            log.warning("controller did not run, sessions extended", late_ms=late_ms)

    async def _ask_who_is_gone(self) -> None:
        """Ask brokers that served before this controller became active, and have no stream: they may be gone, too."""
        await asyncio.sleep(COME_AFTER_S)
        for broker in list(self.state.image.brokers.values()):
            if self._is_missing(broker):
                self._inquiries.begin(broker)

    async def _fence_expired(self) -> None:
        while (broker_id := await self.decide(self._fence_next_expired, SESSION_EXPIRED)) is not None:
            log.warning("broker fenced: its session expired", broker=broker_id)
        if gone := await self.decide(self.state.forget_unused):
            log.warning("registrations forgotten: they were never used", count=len(gone), brokers=gone[:LOGGED_KEYS])

    def _fence_next_expired(self, now_ms: int) -> Decision[int | None]:
        self._note_running()  # otherwise a pause during the commit before would count against brokers
        return self.state.fence_next_expired(now_ms)

    def _begin_rounds(self, interval_s: float, work: Callable[[int], Decision[int]], what: str) -> None:
        """Do the controller's own work, such as its elections (CT-12), round after round, some at a time."""

        async def a_round() -> None:
            while count := await self.decide(work, what):
                log.info(what, count=count)

        self._tasks.append(for_good(self._every(interval_s, a_round), what))

    async def _every(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while self._active:
            await asyncio.sleep(interval_s)
            await self._retried(work)

    async def _retried(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a round of background work. An error of the store puts it off to the next round; a defect is the end."""
        try:
            await work()
        except ReplogError as error:
            log.warning("background work put off", reason=str(error))
        except Exception as error:  # noqa: BLE001 (a controller that cannot fence must not stay)
            self._fail(error)
