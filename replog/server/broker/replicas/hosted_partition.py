"""A replica that this broker hosts: its log, and its role if it has one (§1.1, §1.4)."""

from dataclasses import dataclass
from typing import ClassVar

from follower.fetch_session_handler import FetchSessionHandler
from follower.partition_follower import PartitionFollower
from leader.partition_leader import PartitionLeader
from replog.common.quota import ReplicationQuota, Throttles, is_listed
from replog.config.topic import TopicConfig
from replog.log.log import Log
from replog.metadata.values import PartitionState
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

    def throttle(self, state: PartitionState, broker_id: int, sent: Throttles, copied: Throttles) -> None:
        """Set the quotas: a throttled move has its own, and the topic's lists count for all other copies."""
        config, partition = self.log.config, self.topic_partition.partition
        self.moving = state.adding if state.throttle else ()
        self.move_quota = sent.of_moves(state.throttle) if self.moving else None
        listed = is_listed(config.leader_replication_throttled_replicas, partition, broker_id)
        self.leader_quota = sent.listed if listed else None
        if broker_id in self.moving:
            self.follower_quota = copied.of_moves(state.throttle)
        else:
            listed = is_listed(config.follower_replication_throttled_replicas, partition, broker_id)
            self.follower_quota = copied.listed if listed else None

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
