"""The replicas that a broker hosts, the requests that wait on them, and what follows from each event (§1.4, §3.2).

Everything here runs on the event loop and nothing awaits, so no two events interleave: what Kafka orders with locks
(ST-3..ST-6) is ordered by that. What an event sets off (checks of delayed operations, pushes of high watermarks) is
gathered and done once, when the loop is through with all the events it has at hand (PR-6): so many appends wake a
follower once, and nothing is completed in the middle of something else (ST-5).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

import structlog

from cluster.broker.budget import Budget
from cluster.broker.delayed import DelayedOperations
from cluster.broker.partition import HostedPartition
from cluster.clock import Clock
from cluster.metadata_image import MetadataImage
from follower.partition import PartitionFollower
from leader.hearing import Hearing
from leader.isr import IsrProposal
from leader.partition import PartitionLeader
from replog.config import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata import PartitionState
from replog.quota import ReplicationQuota
from replog.topic import TopicPartition

log = structlog.get_logger()


class HighWatermarkListener(Protocol):
    """A follower's stream, told of high watermarks that moved (divergence 6)."""

    def on_high_watermark(self, tp: TopicPartition) -> None: ...


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
        self.started = False  # the image is whole and the roles are taken up; before, this broker is nobody to ask
        self.hearing = Hearing(clock.monotonic_ms())
        self.produces = DelayedOperations(clock)
        self.fetches = DelayedOperations(clock)
        self.record_deletions = DelayedOperations(clock)
        self.answers = Budget(config.queued_max_response_bytes)  # to consumers; replication has room of its own
        windows = config.replication_quota_window_num
        window_ms = config.replication_quota_window_size_seconds * 1000
        self.leader_quota = ReplicationQuota(config.leader_replication_throttled_rate, windows, window_ms)
        self.follower_quota = ReplicationQuota(config.follower_replication_throttled_rate, windows, window_ms)
        self.listeners: dict[HighWatermarkListener, None] = {}
        self.on_storage_error = on_storage_error
        self._submit_proposal = submit_proposal
        self._moved: dict[TopicPartition, bool] = {}  # touched since the last drain; whether the HW advanced

    def leader(self, tp: TopicPartition) -> PartitionLeader | ErrorCode:
        """The leader role of `tp`, or why this broker cannot play it (§1.4)."""
        hosted = self.hosted.get(tp)
        if hosted is None:
            known = tp in self.image.partitions
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if hosted.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return hosted.leader or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leader_for_epoch(self, tp: TopicPartition, current_leader_epoch: int | None) -> PartitionLeader | ErrorCode:
        """As `leader`, but the epoch is fenced before leadership is looked at, on a follower too (FE-2)."""
        hosted = self.hosted.get(tp)
        if hosted is not None and hosted.follower is not None and not hosted.is_offline:
            return hosted.follower.check_leader_only(current_leader_epoch)
        return self.leader(tp)

    def reader(self, tp: TopicPartition) -> PartitionLeader | PartitionFollower | ErrorCode:
        """The role, be it the follower's, that serves a consumer which may be sent to followers (FE-20)."""
        hosted = self.hosted.get(tp)
        follower = hosted.follower if hosted is not None and not hosted.is_offline else None
        return self.leader(tp) if follower is None else follower

    def is_alone(self, leader: PartitionLeader) -> bool:
        """Whether another may lead by now, and commit, without this one's knowledge (divergence 29)."""
        return self.hearing.nobody(leader.replicas, self.clock.monotonic_ms())

    def touched(self, tp: TopicPartition, high_watermark_advanced: bool) -> None:
        """Records were appended, or the HW advanced, or the role changed: check what waits for that, soon (PR-6)."""
        if not self._moved:
            asyncio.get_running_loop().call_soon(self._drain)
        self._moved[tp] = self._moved.get(tp, False) or high_watermark_advanced

    def propose(self, tp: TopicPartition, leader: PartitionLeader) -> None:
        """Hand the ISR change that the leader wants, if it wants one, to the controller (ISR-4)."""
        proposal = leader.take_proposal()
        if proposal is not None:
            self._submit_proposal(tp, proposal)

    def on_alter_partition_result(
        self, tp: TopicPartition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None
    ) -> None:
        """ISR-9, then whatever the new ISR allows."""
        leader = self.leader(tp)
        if isinstance(leader, ErrorCode):
            return
        advanced = leader.on_alter_partition_result(proposal, error, state, self.clock.monotonic_ms())
        if advanced:
            self.touched(tp, high_watermark_advanced=True)
        self.propose(tp, leader)

    def check_isrs(self) -> None:
        """The periodic look for followers that fell behind (ISR-5)."""
        for tp, hosted in self.hosted.items():
            if hosted.leader is not None:
                if hosted.leader.check_isr(self.clock.monotonic_ms()):
                    self.touched(tp, high_watermark_advanced=True)
                self.propose(tp, hosted.leader)

    def _drain(self) -> None:
        moved, self._moved = self._moved, {}
        advanced = [tp for tp, high_watermark_advanced in moved.items() if high_watermark_advanced]
        self._check(advanced, moved)
        for listener in tuple(self.listeners):
            for tp in advanced:
                listener.on_high_watermark(tp)

    def _check(self, advanced: Collection[TopicPartition], moved: Collection[TopicPartition]) -> None:
        for purgatory, keys in ((self.produces, advanced), (self.fetches, moved), (self.record_deletions, advanced)):
            try:
                purgatory.check(keys)
            except Exception:
                log.exception("completing delayed operations failed", partitions=len(keys))

    def check_now(self, tp: TopicPartition) -> None:
        """The partition is gone: whatever waits on it is answered before a topic of the same name takes its place,
        in which the same offsets and epochs mean other records."""
        self._check((tp,), (tp,))

    def went_offline(self, tp: TopicPartition, error: ReplogError) -> None:
        """The disk failed, whoever met that: the broker stops, and whatever waits on the partition is told (§1.4)."""
        self.on_storage_error(error)
        self.touched(tp, high_watermark_advanced=True)

    def role_changed(self, tp: TopicPartition) -> None:
        """Waiting requests find out now, not at their timeout, that this broker leads no more (§2.3 step 6)."""
        self.touched(tp, high_watermark_advanced=True)
