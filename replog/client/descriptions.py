"""What an admin gets to know: the cluster, topics, elections, reassignments and log directories, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from replog.config import topic_config
from replog.errors import ErrorCode, ReplogError
from replog.metadata.values import PartitionState, out_of_sync
from replog.topic import TopicPartition

BrokerStatus = Literal["active", "cordoned", "stopping", "fenced"]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker that is registered."""

    broker_id: int
    address: str
    rack: str
    fenced: bool
    configs: Mapping[str, str]  # settings altered since it was started
    broker_epoch: int
    in_controlled_shutdown: bool
    software_version: str = ""  # of replog; empty: not known

    @property
    def state(self) -> BrokerStatus:
        """fenced, which counts for nothing (CT-6); stopping, which hands its leaderships over; cordoned, which gets no
        new replicas; active."""
        if self.fenced:
            return "fenced"
        if self.in_controlled_shutdown:
            return "stopping"
        return "cordoned" if self.cordoned else "active"

    @property
    def cordoned(self) -> bool:
        """It gets no new replicas."""
        return self.configs.get("cordoned.log.dirs") == "*"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Brokers and controllers, as one broker knows them."""

    cluster_id: str
    controller: str  # the one that decides, as far as the broker knows
    brokers: tuple[BrokerDescription, ...]
    controllers: tuple[str, ...]  # all that brokers look for
    metadata_version: int
    controller_heard_ms_ago: int  # by the broker that answers


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Who leads a partition, and who has it."""

    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int
    adding_replicas: tuple[int, ...]  # while a reassignment is under way
    removing_replicas: tuple[int, ...]
    throttle: int = 0  # of that reassignment, bytes a second; 0: none

    @property
    def is_uncertain(self) -> bool:
        """No replica is known to have all acknowledged records: all are asked how far they go (CT-30)."""
        return self.leader < 0 and not self.isr and not self.elr

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """Of those that are to have the partition."""
        return out_of_sync(self.replicas, self.isr, self.adding_replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic, its partitions by number and the settings that it has of its own."""

    topic: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]

    def min_insync_replicas(self, partition: PartitionDescription) -> int:
        """How many must be in sync for acks=all: the setting, or all replicas if there are fewer (PR-3)."""
        return min(topic_config(self.topic, self.configs).min_insync_replicas, len(partition.replicas))


class ElectionType(StrEnum):
    """Who is to lead."""

    PREFERRED = "preferred"  # the first replica, if it is in sync
    UNCLEAN = "unclean"  # the live replica that goes furthest, where nobody leads: committed records may be lost


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What became of one election."""

    leader: int  # now; -1: none
    error: ReplogError | None  # why there was no election


@dataclass(frozen=True, slots=True)
class ReplicaLogEnd:
    """How far a replica goes in a partition without a leader, as far as its broker has said it (CT-30)."""

    broker_id: int
    is_live: bool  # it may lead now
    last_epoch: int | None  # -1: it has no records; None: not known
    end_offset: int | None
    had_everything: bool = False  # until it stopped uncleanly
    is_offline: bool = False  # its files have failed


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Of one partition without a leader. `strategy`: its topic's unclean.recovery.strategy, as it holds (CT-31)."""

    strategy: str
    replicas: tuple[ReplicaLogEnd, ...]

    @property
    def furthest(self) -> ReplicaLogEnd | None:
        """Of the live ones, who would be elected on request."""
        return max(
            (replica for replica in self.replicas if replica.is_live and replica.end_offset is not None),
            key=lambda replica: (replica.had_everything, replica.last_epoch, replica.end_offset),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """One that is under way. `replicas` are the target's, then those that leave."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    throttle: int = 0  # bytes a second; 0: none


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One that is committed, and why the controller made it."""

    version: int  # of the metadata, with it
    at_ms: int  # wall time
    partition: TopicPartition
    reason: str
    before: PartitionState
    after: PartitionState


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """What `describe_partition_changes` answers."""

    kept_since_ms: int  # wall time; of what was before, this controller knows nothing
    changes: tuple[PartitionChange, ...]  # oldest first


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica in a log directory."""

    size: int  # bytes
    offset_lag: int  # behind the high watermark; of a copy in the making, behind the replica; -1 if that is gone
    is_future: bool  # a copy in the making, which will take the replica's place


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica, as its broker has it."""

    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int  # bytes
    epochs: tuple[tuple[int, int], ...]  # leader epochs, each with the offset where it begins


class BrokerReplicas(NamedTuple):
    """What one broker says of itself."""

    replicas: dict[TopicPartition, ReplicaDescription]
    longest_step_s: float  # for so long its event loop was held at most, in the last one to two minutes


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory of a broker."""

    log_dir: str
    error: ErrorCode
    total_bytes: int  # of the file system; -1 if it does not tell
    usable_bytes: int
    replicas: tuple[tuple[TopicPartition, ReplicaInfo], ...]
