"""Which replicas this broker hosts, which of them it leads or follows, and which have failed (§1.4)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from follower.fetch_session_handler import FetchSessionHandler
from follower.partition_follower import PartitionFollower
from leader.failure_detector import FailureDetector
from leader.partition_leader import PartitionLeader
from replog.common.quota import ReplicationQuota, Throttles, is_listed
from replog.config.topic import TopicConfig
from replog.errors import ErrorCode
from replog.log.directories.log_manager import LogManager
from replog.log.fetch import ANY_TOPIC, FetchPartition
from replog.log.log import Log
from replog.server.broker.context import BrokerContext
from replog.topic import TopicPartition


@dataclass(slots=True)
class HostedPartition:
    """A hosted replica. Once it has a role, exactly one of `leader` and `follower` is set."""

    WATCHED: ClassVar = frozenset({"log", "leader", "follower"})  # the simulator's checks see each assignment

    topic_partition: TopicPartition
    topic_id: bytes
    log: Log  # once its `failure` is set, the replica is offline and its role ends (§1.4)
    leader: PartitionLeader | None = None
    follower: PartitionFollower | None = None
    leader_quota: ReplicationQuota | None = None  # limits copies from here, if the replica is listed (FE-23)
    follower_quota: ReplicationQuota | None = None  # limits copies to here: listed, or added by a throttled move (FT-6)
    move_quota: ReplicationQuota | None = None  # limits copies from here to `moving`
    moving: tuple[int, ...] = ()  # brokers that a throttled move adds
    fetched_by: FetchSessionHandler | None = None  # copies it from its leader

    def configure(self, config: TopicConfig) -> None:
        """Use these settings of the topic from now on. Those that limit copies are for `throttle`."""
        self.log.config = config
        self.log.ask_for_flush()

    def quota_for(self, follower: int) -> ReplicationQuota | None:
        """Return the quota that limits copies from here to that broker."""
        return self.move_quota if follower in self.moving else self.leader_quota

    def replace_log(self, log: Log) -> None:
        """Continue the role on this log, which has the same records as the old one (7.7)."""
        log.on_failure = self.log.on_failure
        self.log = log
        for role in (self.leader, self.follower):
            if role is not None:
                role.log = log

    @property
    def leader_epoch(self) -> int:
        role = self.leader or self.follower
        return role.leader_epoch if role is not None else -1


class HostedReplicas:
    """The hosted replicas by name. `RoleChanges` puts them here; requests look them up."""

    def __init__(self, context: BrokerContext) -> None:
        config = self._config = context.config
        windows, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self.hosted: dict[TopicPartition, HostedPartition] = {}
        self.started = False  # the image is complete and roles are taken up, so requests are answered
        self.unreachable: dict[TopicPartition, bytes] = {}  # replicas that could not be loaded, or made; topic ids
        self.gone: set[TopicPartition] = set()  # failed replicas whose directories are gone
        self.missing: set[TopicPartition] = set()  # not on the disks, and not made while nobody leads (CT-30)
        self.failure_detector = FailureDetector(context.clock.monotonic_ms())
        self.sending = Throttles(config.leader_replication_throttled_rate, windows, window_ms)
        self.copying = Throttles(config.follower_replication_throttled_rate, windows, window_ms)
        self._unmade: set[TopicPartition] = set()  # replicas of `unreachable` that could not be made
        self._offline: dict[TopicPartition, None] = {}  # files failed; some may have been deleted since
        self._image = context.image
        self._clock = context.clock
        self._broker_id = config.node_id

    def leader(self, tp: TopicPartition) -> PartitionLeader | ErrorCode:
        """Return the leader role of `tp`, or why this broker does not have it (§1.4)."""
        hosted = self.hosted.get(tp)
        if hosted is None:
            if tp in self.unreachable:
                return ErrorCode.KAFKA_STORAGE_ERROR
            known = tp in self._image.partitions
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

    def topic_id(self, tp: TopicPartition) -> bytes:
        """Return the topic id of a hosted replica, empty for others."""
        hosted = self.hosted.get(tp)
        return hosted.topic_id if hosted is not None else b""

    def is_alone(self, leader: PartitionLeader) -> bool:
        """Return True if another broker may lead and commit without this one's knowledge (divergence 29)."""
        return self.failure_detector.nobody(leader.replicas, self._clock.monotonic_ms())

    def misses_controller(self) -> bool:
        """Return True if any leader here may be alone."""
        return self.failure_detector.misses_controller(self._clock.monotonic_ms())

    def set_rates(self) -> None:
        """Set the rates of throttles by the settings that hold now."""
        dynamic = self._config.dynamic(self._image.broker_configs.get(self._broker_id, {}))
        self.sending.listed.rate = dynamic.leader_replication_throttled_rate
        self.copying.listed.rate = dynamic.follower_replication_throttled_rate

    def throttle(self, hosted: HostedPartition) -> None:
        """Set the quotas that limit copies of this replica: a throttled move has its own, and the topic's lists count
        for all other copies."""
        state, config = self._image.partitions.get(hosted.topic_partition), hosted.log.config
        if state is None:
            return
        hosted.moving = state.adding if state.throttle else ()
        hosted.move_quota = self.sending.of_moves(state.throttle) if hosted.moving else None
        place = hosted.topic_partition.partition, self._broker_id
        listed = is_listed(config.leader_replication_throttled_replicas, *place)
        hosted.leader_quota = self.sending.listed if listed else None
        if self._broker_id in hosted.moving:
            hosted.follower_quota = self.copying.of_moves(state.throttle)
        else:
            listed = is_listed(config.follower_replication_throttled_replicas, *place)
            hosted.follower_quota = self.copying.listed if listed else None

    def note_unreachable(self, logs: LogManager) -> None:
        """Note replicas that may be on a disk that could not be read, or that could not be loaded. They are offline
        (CT-27): if they were created again, their records would be lost."""
        if logs.offline or logs.failed:
            for tp in self._image.index.on_broker(self._broker_id):
                topic = self._image.topics.get(tp.topic)
                if topic is not None and (tp in logs.failed or (logs.offline and logs.topic_id(tp) is None)):
                    self.unreachable[tp] = topic.topic_id

    def note_unmade(self, topic_ids: Mapping[TopicPartition, bytes]) -> None:
        """Note replicas that could not be made. They are offline until they are tried again."""
        self.unreachable |= topic_ids
        self._unmade |= topic_ids.keys()

    def try_again(self, tp: TopicPartition) -> None:
        if tp in self._unmade:
            self._unmade.remove(tp)
            del self.unreachable[tp]

    def end_role(self, tp: TopicPartition) -> None:
        """End the role of a replica whose files failed, until it is opened again."""
        hosted = self.hosted.get(tp)
        if hosted is not None:
            self._offline[tp] = None
            hosted.leader = hosted.follower = None

    def offline(self) -> Iterator[tuple[TopicPartition, bytes, bool]]:
        """Yields failed replicas that the cluster still counts on, with their topics' ids (CT-27), and True for those
        that are gone and that it remembers. One that cannot be made is told if another is in sync and may lead."""
        for tp, topic_id in self.lost():
            is_gone = tp in self.gone and self.is_remembered(tp)
            if is_gone or (self.is_counted_on(tp) and not (tp in self._unmade and self._is_alone_in_sync(tp))):
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
        state = self._image.partitions.get(tp)
        return state is not None and self._broker_id in (state.leader, *state.isr, *state.elr)

    def _is_alone_in_sync(self, tp: TopicPartition) -> bool:
        return self._image.partitions[tp].isr == (self._broker_id,)

    def is_remembered(self, tp: TopicPartition) -> bool:
        """Return True if this replica had everything by the metadata, and may still have it."""
        state = self._image.partitions.get(tp)
        return state is not None and self._broker_id in state.last_known_elr

    def forget_lost(self, tp: TopicPartition) -> None:
        """Forget a failed replica, which is opened again or gone."""
        self.gone.discard(tp)
        self.unreachable.pop(tp, None)
        self._offline.pop(tp, None)
        self.hosted.pop(tp, None)
