"""One replica that this broker hosts: its log and the role it plays, or why it plays none (§1.1, §1.4)."""

from dataclasses import dataclass

from follower.partition import PartitionFollower
from leader.partition import PartitionLeader
from replog.log.log import Log
from replog.topic import TopicPartition


@dataclass(slots=True)
class HostedPartition:
    """Exactly one of `leader` and `follower` is set once metadata has placed the replica."""

    topic_partition: TopicPartition
    topic_id: bytes
    log: Log
    leader: PartitionLeader | None = None
    follower: PartitionFollower | None = None

    @property
    def leader_epoch(self) -> int:
        role = self.leader or self.follower
        return role.leader_epoch if role is not None else -1
