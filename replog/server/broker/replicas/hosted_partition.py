"""One replica that this broker hosts: its log and the role it plays, or why it plays none (§1.1, §1.4)."""

from dataclasses import dataclass
from typing import ClassVar

from follower.fetch_session_handler import FetchSessionHandler
from follower.partition_follower import PartitionFollower
from leader.partition_leader import PartitionLeader
from replog.config import TopicConfig
from replog.log.log import Log
from replog.quota import is_listed
from replog.topic import TopicPartition


@dataclass(slots=True)
class HostedPartition:
    """After metadata has placed the replica, exactly one of `leader` and `follower` is set."""

    WATCHED: ClassVar = frozenset({"log", "leader", "follower"})  # the simulator's checks see each assignment

    topic_partition: TopicPartition
    topic_id: bytes
    log: Log
    leader: PartitionLeader | None = None
    follower: PartitionFollower | None = None
    leader_throttled: bool = False  # its leader's replica is listed (FE-23)
    follower_throttled: bool = False  # this replica is listed (FT-6)
    fetched_by: FetchSessionHandler | None = None  # while it is copied from its leader

    def configure(self, config: TopicConfig, broker_id: int) -> None:
        """Use these settings of the topic from now on."""
        partition = self.topic_partition.partition
        self.log.config = config
        self.log.ask_for_flush()
        self.leader_throttled = is_listed(config.leader_replication_throttled_replicas, partition, broker_id)
        self.follower_throttled = is_listed(config.follower_replication_throttled_replicas, partition, broker_id)

    def replace_log(self, log: Log) -> None:
        """Continue the role on this log, which has the same records as the old one (7.7)."""
        log.on_failure = self.log.on_failure
        self.log = log
        for role in (self.leader, self.follower):
            if role is not None:
                role.log = log

    @property
    def is_offline(self) -> bool:
        """Its disk has failed: its role ends (§1.4)."""
        return self.log.failure is not None

    @property
    def leader_epoch(self) -> int:
        role = self.leader or self.follower
        return role.leader_epoch if role is not None else -1
