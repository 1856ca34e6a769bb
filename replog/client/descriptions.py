"""What an admin gets to know: the cluster, topics, elections, reassignments and log directories, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    broker_id: int
    address: str
    rack: str
    fenced: bool
    configs: Mapping[str, str]  # settings altered since it was started


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: str
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int
    adding_replicas: tuple[int, ...]  # while a reassignment is under way
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    topic: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]


class ElectionType(StrEnum):
    PREFERRED = "preferred"  # the first replica, if it is in sync
    UNCLEAN = "unclean"  # any live replica where there is no leader: committed records may be lost


@dataclass(frozen=True, slots=True)
class ElectionResult:
    leader: int  # now; -1: none
    error: ReplogError | None  # why there was no election


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """One that is under way. `replicas` are the target's, then those that leave."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    size: int  # bytes
    offset_lag: int  # behind the high watermark; of a copy in the making, behind the replica; -1 if that is gone
    is_future: bool  # a copy in the making, which will take the replica's place


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    log_dir: str
    error: ErrorCode
    total_bytes: int  # of the file system; -1 if it does not tell
    usable_bytes: int
    replicas: tuple[tuple[TopicPartition, ReplicaInfo], ...]
