"""The replicas that a broker hosts, the requests that wait on them, and what follows from each event (§1.4, §3.2).

Everything here runs on the event loop and nothing awaits, so no two events interleave, for which Kafka needs locks
(ST-3..ST-6). Checks of delayed operations and pushes of high watermarks are collected, and done once after all events
of a pass of the loop (PR-6). So many appends wake a follower once, and nothing completes in the middle of another event
(ST-5)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import structlog

from follower.partition_follower import PartitionFollower
from leader.failure_detector import FailureDetector
from leader.fetch_session import FetchSession
from leader.isr import IsrProposal
from leader.partition_leader import PartitionLeader
from leader.resignation import should_resign, silence_ms
from replog.common.quota import ReplicationQuota, Throttles
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import is_of_the_disk
from replog.log.fetch import ANY_TOPIC, FetchPartition, Shared
from replog.log.files.cold import ColdRead
from replog.metadata.image import MetadataImage
from replog.metadata.values import LEAST_CANDIDATES, PartitionState
from replog.server.audit_log import AuditLog
from replog.server.authorizer import Authorizer
from replog.server.broker.replicas.byte_pool import BytePool
from replog.server.broker.replicas.cold_reads import ColdReads
from replog.server.broker.replicas.delayed_operations import DelayedOperations
from replog.server.broker.replicas.hosted_partition import HostedPartition
from replog.server.broker.replicas.look_ups import LookUps
from replog.server.broker.replicas.traffic import Traffic
from replog.server.clock import Clock
from replog.server.throttle import Throttle
from replog.server.trusted_time import TrustedTime
from replog.topic import TopicPartition

log = structlog.get_logger()

TOLD_AT_ONCE = 2  # sessions that look at their partitions in a step: each may take some milliseconds
MAX_CONSUMED = 200_000  # partitions of all consumers' sessions together, at 0.6 KiB each


class ReplicaManager:
    """Hosted partitions by name, and the purgatories of their requests."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        clock: Clock,
        submit_proposal: Callable[[TopicPartition, IsrProposal], None],
        on_storage_error: Callable[[ReplogError], None],
    ) -> None:
        self.config = config
        self.image = image
        self.clock = clock
        self.hosted: dict[TopicPartition, HostedPartition] = {}
        self.longest_step_s: Callable[[], float] = lambda: 0.0  # the event loop's, if it is watched
        self.started = False  # the image is complete and roles are taken up, so requests are answered
        self.failure_detector = FailureDetector(clock.monotonic_ms())
        self.time = TrustedTime(clock)
        self.produces = DelayedOperations(clock)
        self.record_deletions = DelayedOperations(clock)
        self.look_ups = LookUps()
        self.traffic = Traffic(clock, image)
        self.throttle = Throttle(clock)
        self.authorizer = Authorizer(config, image.acls, AuditLog(clock))
        self.cold_reads = ColdReads(self._tell)
        self.answers = BytePool(config.queued_max_response_bytes)  # consumers share it; replication has its own room
        self.waiting_produces = BytePool(config.queued_max_request_bytes)
        windows = config.replication_quota_window_num
        window_ms = config.replication_quota_window_size_seconds * 1000
        self.sending = Throttles(config.leader_replication_throttled_rate, windows, window_ms)
        self.copying = Throttles(config.follower_replication_throttled_rate, windows, window_ms)
        self.on_storage_error = on_storage_error
        self._submit_proposal = submit_proposal
        self._advanced: dict[TopicPartition, None] = {}  # the HW advanced since the last drain
        self.sessions: dict[TopicPartition, dict[FetchSession[Any], None]] = {}
        self._growth: dict[TopicPartition, int] = {}  # members that a proposed ISR has more, or fewer
        self._consumed = 0  # partitions of consumers' sessions
        self._marked: dict[FetchSession[Any], None] = {}  # sessions that will look at their partitions
        self._posts: list[Callable[[], None]] = []  # send answers to produces
        self.shared: Shared | None = None  # set while several sessions look
        self._woken = False  # a call of `_follow_up` is due
        self.dirty: dict[TopicPartition, None] = {}  # partitions whose logs have changed
        self._offline: dict[TopicPartition, None] = {}  # files failed; some may have been deleted since
        self.unreachable: dict[TopicPartition, bytes] = {}  # replicas that a start could not load; topic ids
        self.gone: set[TopicPartition] = set()  # failed replicas whose directories are gone
        self._lagging: dict[TopicPartition, None] = {}  # partitions with a follower that may leave the ISR by time

    def leader(self, tp: TopicPartition) -> PartitionLeader | ErrorCode:
        """Return the leader role of `tp`, or why this broker does not have it (§1.4)."""
        hosted = self.hosted.get(tp)
        if hosted is None:
            if tp in self.unreachable:
                return ErrorCode.KAFKA_STORAGE_ERROR
            known = tp in self.image.partitions
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if hosted.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return hosted.leader or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leader_for_epoch(self, tp: TopicPartition, current_leader_epoch: int | None) -> PartitionLeader | ErrorCode:
        """Return the leader like `leader`, but check the epoch before leadership, also on a follower (FE-2)."""
        hosted = self.hosted.get(tp)
        if hosted is not None and hosted.follower is not None and hosted.log.failure is None:
            return hosted.follower.check_leader_only(current_leader_epoch)
        return self.leader(tp)

    def is_alone(self, leader: PartitionLeader) -> bool:
        """Return True if another broker may lead and commit without this one's knowledge (divergence 29)."""
        return self.failure_detector.nobody(leader.replicas, self.clock.monotonic_ms())

    def misses_controller(self) -> bool:
        """Return True if any leader here may be alone."""
        return self.failure_detector.misses_controller(self.clock.monotonic_ms())

    def leader_for_fetch(self, tp: TopicPartition, fetch: FetchPartition) -> PartitionLeader | ErrorCode:
        """Return the leader that this fetch asks, or the first error of the fetch (FE-1)."""
        hosted = self.hosted.get(tp)
        if hosted is not None:
            if fetch.topic_id not in (hosted.topic_id, ANY_TOPIC):
                return ErrorCode.INCONSISTENT_TOPIC_ID  # a topic of the same name has other epochs
            if hosted.leader is not None and hosted.log.failure is None:
                return hosted.leader
        return self.leader_for_epoch(tp, fetch.current_leader_epoch)

    def reader_for_fetch(
        self, tp: TopicPartition, fetch: FetchPartition
    ) -> PartitionLeader | PartitionFollower | ErrorCode:
        """Return the leader like `leader_for_fetch`, or the follower for a consumer that may read it (FE-20)."""
        hosted = self.hosted.get(tp)
        if hosted is None or hosted.follower is None or hosted.log.failure is not None:
            return self.leader_for_fetch(tp, fetch)
        return hosted.follower if fetch.topic_id in (hosted.topic_id, ANY_TOPIC) else ErrorCode.INCONSISTENT_TOPIC_ID

    def leader_throttle(self, tp: TopicPartition, follower: int) -> ReplicationQuota | None:
        return self.hosted[tp].quota_for(follower)

    def watch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        """Mark `tp` in this session at every event of it.

        Raises THROTTLING_QUOTA_EXCEEDED if consumers fetch too many partitions. A follower always has room."""
        if session.is_bounded:
            if self._consumed >= MAX_CONSUMED:
                raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                    f"broker {self.config.node_id} serves consumers of {MAX_CONSUMED} partitions together, no more; "
                    "close some, or try again"
                )
            self._consumed += 1
        self.sessions.setdefault(tp, {})[session] = None

    def unwatch(self, tp: TopicPartition, session: FetchSession[Any]) -> None:
        sessions = self.sessions[tp]
        del sessions[session]
        self.cold_reads.forget(tp, session)
        self._consumed -= session.is_bounded
        if not sessions:
            del self.sessions[tp]

    def bring(self, tp: TopicPartition, session: FetchSession[Any], cold: ColdRead) -> None:
        self.cold_reads.ask(tp, session, cold)

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
            self.throttle.served()
            self.touched(tp, high_watermark_advanced=False)

    def touched(self, tp: TopicPartition, high_watermark_advanced: bool) -> None:
        """Check soon what waits for appended records, a new high watermark or a new role (PR-6).

        Sessions are marked at once: a request of one that is not marked means that nothing has changed."""
        if high_watermark_advanced:
            self._advanced[tp] = None
            self._wake()
        self._lagging[tp] = self.dirty[tp] = None
        for session in self.sessions.get(tp, ()):
            session.mark(tp)
            self.go_on(session)

    def go_on(self, session: FetchSession[Any]) -> None:
        """Have the session look at its marked partitions soon."""
        self._marked[session] = None
        self._wake()

    def log_start_moved(self, tp: TopicPartition) -> None:
        """Note that retention has deleted records, or a deletion is durable here. Followers get the new log start in
        their next answer, the leader in the next fetch (ST-7). Deletions that wait for it complete (FT-23)."""
        hosted = self.hosted.get(tp)
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
        self._drain()
        posts, self._posts = self._posts, []
        for post in posts:
            try:
                post()
            except Exception:
                log.exception("answering produces failed")
        self._woken = False
        self._tell(tuple(islice(self._marked, TOLD_AT_ONCE)))
        if self._marked or self._advanced:
            self._wake()

    def propose(self, tp: TopicPartition, leader: PartitionLeader) -> None:
        """Send the leader's proposal of an ISR, if there is one, to the controller (ISR-4)."""
        proposal = leader.take_proposal()
        if proposal is not None:
            self._growth[tp] = len(proposal.isr) - len(leader.state.isr)
            self._submit_proposal(tp, proposal)

    def on_alter_partition_result(
        self, tp: TopicPartition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None
    ) -> None:
        """Take in the controller's answer (ISR-9), then do what the new ISR allows."""
        growth = self._growth.pop(tp, 0)
        if error is ErrorCode.NONE:
            self.traffic.isr_expands += growth > 0
            self.traffic.isr_shrinks += growth < 0
        leader = self.leader(tp)
        if isinstance(leader, ErrorCode):
            return
        advanced = leader.on_alter_partition_result(proposal, error, state, self.clock.monotonic_ms())
        self.touched(tp, advanced)
        self.propose(tp, leader)

    def check_isrs(self) -> None:
        """Look for followers that fell behind (ISR-5), only in partitions where one lacks records."""
        now_ms = self.clock.monotonic_ms()
        for tp in tuple(self._lagging):
            hosted = self.hosted.get(tp)
            if hosted is None or hosted.leader is None or hosted.leader.all_caught_up:
                del self._lagging[tp]
                continue
            if hosted.leader.check_isr(now_ms):
                self.touched(tp, high_watermark_advanced=True)
            self.propose(tp, hosted.leader)

    def resign_where_unheard(self) -> None:
        """Have leaders ask to resign if no broker that could lead instead reaches them (ISR-20)."""
        now_ms = self.clock.monotonic_ms()
        for_ms = silence_ms(self.config.replica_lag_time_max_ms, self.config.replica_fetch_wait_max_ms)
        live = {b.broker_id for b in self.image.brokers.values() if b.active and b.broker_id != self.config.node_id}
        silent = self.failure_detector.silent(live, for_ms, now_ms)
        if len(silent) < LEAST_CANDIDATES:
            return
        for tp in tuple(self._lagging):
            leader = self.hosted[tp].leader if tp in self.hosted else None
            if leader is not None and should_resign(leader, live, silent, now_ms - for_ms):
                leader.resign()
                self.propose(tp, leader)
                self.failure_detector.listen_anew(now_ms)  # otherwise a leader that must stay asks at every look

    def _drain(self) -> None:
        if self._advanced:
            advanced, self._advanced = self._advanced, {}
            self._check(advanced)

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

    def _tell(self, sessions: Iterable[FetchSession[Any]]) -> None:
        """Have sessions look at their marked partitions. Followers that ask for the same share a read of the log and a
        message."""
        now_ms, self.shared = self.clock.monotonic_ms(), {}
        for session in sessions:
            self._marked.pop(session, None)
            try:
                session.on_moved(now_ms)
            except Exception:
                log.exception("answering a fetch failed")
        self.shared = None

    def check_now(self, tp: TopicPartition) -> None:
        """Answer all requests that wait on a deleted partition: a new topic of that name will reuse its offsets and
        epochs."""
        self._check((tp,))
        sessions = tuple(self.sessions.get(tp, ()))
        for session in sessions:
            session.mark(tp)
        self._tell(sessions)

    def went_offline(self, tp: TopicPartition, error: ReplogError) -> None:
        """End the role of a replica whose files failed, until it is opened again, and answer requests that wait on the
        partition (§1.4)."""
        if not is_of_the_disk(error):
            log.error("replica offline, to be tried again", partition=str(tp), reason=error.message)
        self.on_storage_error(error)
        hosted = self.hosted.get(tp)
        if hosted is not None:
            self._offline[tp] = None
            hosted.leader = hosted.follower = None
        self.role_changed(tp)

    def offline_replicas(self) -> Iterator[tuple[TopicPartition, bytes, bool]]:
        """Yields failed replicas that the cluster still counts on, with their topics' ids (CT-27), and True for those
        that are gone and that it remembers."""
        for tp, topic_id in self.lost():
            is_gone = tp in self.gone and self.is_remembered(tp)
            if is_gone or self.is_counted_on(tp):
                yield tp, topic_id, is_gone

    def offline_id(self, tp: TopicPartition) -> bytes | None:
        """Return the topic id of a replica whose files failed; None for others."""
        hosted = self.hosted.get(tp)
        return hosted.topic_id if hosted is not None and hosted.log.failure is not None else self.unreachable.get(tp)

    def lost(self) -> Iterator[tuple[TopicPartition, bytes]]:
        """Yields all replicas whose files failed, with their topics' ids."""
        failed = ((tp, self.hosted.get(tp)) for tp in self._offline)
        since_start = (
            (tp, hosted.topic_id) for tp, hosted in failed if hosted is not None and hosted.log.failure is not None
        )
        return chain(since_start, self.unreachable.items())

    def is_counted_on(self, tp: TopicPartition) -> bool:
        """Return True if this replica leads by the metadata, or may have to."""
        state = self.image.partitions.get(tp)
        return state is not None and self.config.node_id in (state.leader, *state.isr, *state.elr)

    def is_remembered(self, tp: TopicPartition) -> bool:
        """Return True if this replica had everything by the metadata, and may still have it."""
        state = self.image.partitions.get(tp)
        return state is not None and self.config.node_id in state.last_known_elr

    def forget_lost(self, tp: TopicPartition) -> None:
        """Forget a failed replica, which is opened again or gone."""
        self.gone.discard(tp)
        self.unreachable.pop(tp, None)
        self._offline.pop(tp, None)
        self.hosted.pop(tp, None)

    def role_changed(self, tp: TopicPartition) -> None:
        """Check requests that wait, otherwise those to an old leader would wait for their timeout (§2.3 step 6)."""
        self.touched(tp, high_watermark_advanced=True)
