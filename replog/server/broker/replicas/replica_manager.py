"""The events of hosted replicas move in-sync sets and high watermarks, and complete requests that wait (§3.2).

Everything here runs on the event loop and nothing awaits, so no two events interleave, for which Kafka needs locks
(ST-3..ST-6). Checks of delayed operations and pushes of high watermarks are collected, and done once after all events
of a pass of the loop (PR-6). So many appends wake a follower once, and nothing completes in the middle of another event
(ST-5)."""

import asyncio
from collections.abc import Callable, Collection, Iterable

import structlog

from leader.failure_detector import should_resign, silence_ms
from leader.isr import IsrProposal
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import is_of_the_disk
from replog.metadata.values import LEAST_CANDIDATES, PartitionState
from replog.purgatory.purgatory import DelayedOperation, Purgatory
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.byte_pool import BytePool
from replog.server.broker.replicas.fetch_sessions import FetchSessions
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.clock import Clock, DeadlineTimer
from replog.topic import TopicPartition

log = structlog.get_logger()


class DelayedOperations:
    """Delayed operations of one kind, keyed by partition (PG-14), with a timer for the next deadline."""

    def __init__(self, clock: Clock) -> None:
        self.purgatory: Purgatory[TopicPartition] = Purgatory()
        self._clock = clock
        self._timer = DeadlineTimer(clock, self._expire)

    def complete_or_watch(self, operation: DelayedOperation[TopicPartition], keys: Iterable[TopicPartition]) -> None:
        try:
            self.purgatory.complete_or_watch(operation, keys, self._clock.monotonic_ms())
        finally:
            self._arm()  # otherwise an operation whose check raised would have no deadline

    def check(self, moved: Iterable[TopicPartition]) -> None:
        """Complete operations that events on these partitions may have satisfied."""
        self.purgatory.check(moved)

    def _arm(self) -> None:
        self._timer.by(self.purgatory.next_deadline_ms())

    def _expire(self) -> None:
        try:
            self.purgatory.expire(self._clock.monotonic_ms())
        finally:
            self._arm()


class ReplicaManager:
    """Takes in events, has leaders commit, and completes what has waited for them."""

    def __init__(
        self,
        context: BrokerContext,
        replicas: HostedReplicas,
        submit_proposal: Callable[[TopicPartition, IsrProposal], bool],
    ) -> None:
        """`submit_proposal` returns False if a proposal for the partition is under way already."""
        self.context = context
        self.replicas = replicas
        self.sessions = FetchSessions(context, self._wake)
        self.produces = DelayedOperations(context.clock)
        self.record_deletions = DelayedOperations(context.clock)
        self.waiting_produces = BytePool(context.config.queued_max_request_bytes)
        self.dirty: dict[TopicPartition, None] = {}  # partitions whose logs have changed
        self._submit_proposal = submit_proposal
        self._advanced: dict[TopicPartition, None] = {}  # the HW advanced in this pass of the loop
        self._growth: dict[TopicPartition, int] = {}  # members that a proposed ISR has more, or fewer
        self._posts: list[Callable[[], None]] = []  # send answers to produces
        self._woken = False  # a call of `_follow_up` is due
        self._lagging: dict[TopicPartition, None] = {}  # partitions with a follower that may leave the ISR by time

    def on_fetched(self, tp: TopicPartition, leader: PartitionLeader, *, moved: bool) -> None:
        """Note a follower's fetch: its offset may change the ISR and the high watermark (ST-10)."""
        self._lagging[tp] = None
        if moved:
            self.touched(tp, high_watermark_advanced=True)
        self.propose(tp, leader)

    def on_followed(self, tp: TopicPartition, visible: bool) -> None:
        """Note that this replica has followed its leader, and if `visible`, wake consumers that wait here (FE-14,
        FT-4)."""
        self.dirty[tp] = None
        if visible:
            self.context.throttle.served()
            self.touched(tp, high_watermark_advanced=False)

    def touched(self, tp: TopicPartition, high_watermark_advanced: bool) -> None:
        """Check soon what waits for appended records, a new high watermark or a new role (PR-6)."""
        if high_watermark_advanced:
            self._advanced[tp] = None
            self._wake()
        self._lagging[tp] = self.dirty[tp] = None
        self.sessions.mark(tp)

    def log_start_moved(self, tp: TopicPartition) -> None:
        """Note that retention has deleted records, or a deletion is durable here. Followers get the new log start in
        their next answer, the leader in the next fetch (ST-7). Deletions that wait for it complete (FT-23)."""
        hosted = self.replicas.hosted.get(tp)
        if hosted is not None and hosted.fetched_by is not None:
            hosted.fetched_by.mark(tp)
        self.touched(tp, high_watermark_advanced=False)
        self.check_record_deletions((tp,))

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._follow_up_soon()

    def _follow_up_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._follow_up)

    def post_soon(self, post: Callable[[], None]) -> None:
        """Call `post` when this pass of the loop has completed what it can, before waiting fetches are looked at."""
        self._posts.append(post)
        self._wake()

    def _follow_up(self) -> None:
        """Do the work that this pass of the loop has collected."""
        if self._advanced:
            advanced, self._advanced = self._advanced, {}
            self._check(advanced)
        posts, self._posts = self._posts, []
        for post in posts:
            try:
                post()
            except Exception:
                log.exception("answering produces failed")
        self._woken = False
        self.sessions.answer_some()
        if self.sessions.any_marked or self._advanced:
            self._wake()

    def propose(self, tp: TopicPartition, leader: PartitionLeader) -> None:
        """Send the leader's proposal of an ISR, if there is one, to the controller (ISR-4)."""
        proposal = leader.take_proposal()
        if proposal is None:
            return
        growth = len(proposal.isr) - len(leader.state.isr)
        if self._submit_proposal(tp, proposal):
            self._growth[tp] = growth
        else:
            self._settle(tp, proposal, ErrorCode.OPERATION_NOT_ATTEMPTED, None)

    def on_alter_partition_result(
        self, tp: TopicPartition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None
    ) -> None:
        """Take in the controller's answer (ISR-9), then do what the new ISR allows."""
        growth = self._growth.pop(tp, 0)
        if error is ErrorCode.NONE:
            self.context.traffic.isr_expands += growth > 0
            self.context.traffic.isr_shrinks += growth < 0
        self._settle(tp, proposal, error, state)

    def _settle(
        self, tp: TopicPartition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None
    ) -> None:
        leader = self.replicas.leader(tp)
        if isinstance(leader, ErrorCode):
            return
        advanced = leader.on_alter_partition_result(proposal, error, state, self.context.clock.monotonic_ms())
        self.touched(tp, advanced)
        self.propose(tp, leader)

    def check_isrs(self) -> None:
        """Look for followers that fell behind (ISR-5), only in partitions where one lacks records."""
        now_ms = self.context.clock.monotonic_ms()
        for tp in tuple(self._lagging):
            hosted = self.replicas.hosted.get(tp)
            if hosted is None or hosted.leader is None or hosted.leader.all_caught_up:
                del self._lagging[tp]
                continue
            if hosted.leader.check_isr(now_ms):
                self.touched(tp, high_watermark_advanced=True)
            self.propose(tp, hosted.leader)

    def resign_where_unheard(self) -> None:
        """Have leaders ask to resign if no broker that could lead instead reaches them (ISR-20)."""
        config, image, now_ms = self.context.config, self.context.image, self.context.clock.monotonic_ms()
        for_ms = silence_ms(config.replica_lag_time_max_ms, config.replica_fetch_wait_max_ms)
        live = {b.broker_id for b in image.brokers.values() if b.active and b.broker_id != config.node_id}
        silent = self.replicas.failure_detector.silent(live, for_ms, now_ms)
        if len(silent) < LEAST_CANDIDATES:
            return
        for tp in tuple(self._lagging):
            leader = self.replicas.hosted[tp].leader if tp in self.replicas.hosted else None
            if leader is not None and should_resign(leader, live, silent, now_ms - for_ms):
                leader.resign()
                self.propose(tp, leader)
                # Otherwise a leader that must stay asks at every look.
                self.replicas.failure_detector.listen_anew(now_ms)

    def _check(self, advanced: Collection[TopicPartition]) -> None:
        self._complete(self.produces, advanced)
        self._complete(self.record_deletions, advanced)

    @staticmethod
    def _complete(purgatory: DelayedOperations, moved: Collection[TopicPartition]) -> None:
        try:
            purgatory.check(moved)
        except Exception:
            log.exception("completing delayed operations failed", partitions=len(moved))

    def check_record_deletions(self, partitions: Collection[TopicPartition]) -> None:
        """Complete deletions of records after the replicas that count for low watermarks have changed (FT-23)."""
        self._complete(self.record_deletions, partitions)

    def check_now(self, tp: TopicPartition) -> None:
        """Answer all requests that wait on a deleted partition: a new topic of that name will reuse its offsets and
        epochs."""
        self._check((tp,))
        self.sessions.answer_now(tp)

    def went_offline(self, tp: TopicPartition, error: ReplogError) -> None:
        """End the role of a replica whose files failed, and answer requests that wait on the partition (§1.4)."""
        if not is_of_the_disk(error):
            log.error("replica offline, to be tried again", partition=str(tp), reason=error.message)
        self.context.on_storage_error(error)
        self.replicas.end_role(tp)
        self.role_changed(tp)

    def role_changed(self, tp: TopicPartition) -> None:
        """Check requests that wait, otherwise those to an old leader would wait for their timeout (§2.3 step 6)."""
        self.touched(tp, high_watermark_advanced=True)
