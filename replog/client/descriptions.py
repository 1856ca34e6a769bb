"""Answers to an admin, as plain values: the cluster, topics, elections, reassignments and log directories."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from replog.config.topic import topic_config
from replog.errors import ErrorCode, ReplogError
from replog.metadata.log_ends import LogEnd, furthest_of
from replog.metadata.values import MISSING, PartitionState, out_of_sync
from replog.topic import TopicPartition

BrokerStatus = Literal["active", "cordoned", "stopping", "fenced"]


class BrokerDescription(NamedTuple):
    """A registered broker."""

    broker_id: int
    address: str
    rack: str
    fenced: bool
    configs: Mapping[str, str]  # settings altered since it was started
    broker_epoch: int
    in_controlled_shutdown: bool
    software_version: str = ""  # replog's; empty: not known

    @property
    def state(self) -> BrokerStatus:
        """A `fenced` broker counts for nothing (CT-6), `stopping` gives up leaderships, `cordoned` gets no replicas."""
        if self.fenced:
            return "fenced"
        if self.in_controlled_shutdown:
            return "stopping"
        return "cordoned" if self.cordoned else "active"

    @property
    def cordoned(self) -> bool:
        """True if the broker gets no new replicas."""
        return self.configs.get("cordoned.log.dirs") == "*"


class ClusterDescription(NamedTuple):
    """Brokers and controllers, as the broker that answers knows them."""

    cluster_id: str
    controller: str  # the one that decides
    brokers: tuple[BrokerDescription, ...]
    controllers: tuple[str, ...]  # all addresses at which brokers look for one
    metadata_version: int
    controller_heard_ms_ago: int  # when the broker last heard the controller


class PartitionDescription(NamedTuple):
    """A partition's leader and replicas."""

    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int
    adding_replicas: tuple[int, ...]  # while a reassignment is under way
    removing_replicas: tuple[int, ...]
    throttle: int = 0  # bytes per second of the reassignment; 0: none

    @property
    def is_uncertain(self) -> bool:
        """True if no replica is known to have all acknowledged records: all are asked how far they go (CT-30)."""
        return self.leader < 0 and not self.isr and not self.elr

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """The replicas that are not in sync, without those that are being added."""
        return out_of_sync(self.replicas, self.isr, self.adding_replicas)


class TopicDescription(NamedTuple):
    """A topic, its partitions by number and its own settings."""

    topic: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]

    def min_insync_replicas(self, partition: PartitionDescription) -> int:
        """Return how many replicas must be in sync for acks=all: the setting, or all if there are fewer (PR-3)."""
        return min(topic_config(self.topic, self.configs).min_insync_replicas, len(partition.replicas))


class ElectionType(StrEnum):
    """The kind of an election."""

    PREFERRED = "preferred"  # elects the first replica, if it is in sync
    UNCLEAN = "unclean"  # elects the live replica that goes furthest if nobody leads; committed records may be lost


class ElectionResult(NamedTuple):
    """The result of an election."""

    leader: int  # the present one; -1: none
    error: ReplogError | None  # why there was no election


class ReplicaLogEnd(NamedTuple):
    """The log end of a replica of a partition without a leader, if its broker has said it (CT-30)."""

    broker_id: int
    is_live: bool  # it may lead now
    last_epoch: int | None  # -1: it has no records; -2: it is not on its broker's disks; None: not known
    end_offset: int | None
    had_everything: bool = False  # it was complete until it stopped uncleanly
    is_offline: bool = False  # its files have failed

    @property
    def is_missing(self) -> bool:
        """True if its broker does not find it: perhaps a disk is not mounted."""
        return self.last_epoch == MISSING

    @property
    def log_end(self) -> LogEnd | None:
        """None: not known."""
        return None if self.last_epoch is None or self.end_offset is None else LogEnd(self.last_epoch, self.end_offset)


class LogEnds(NamedTuple):
    """The log ends of a partition without a leader, and its topic's present unclean.recovery.strategy (CT-31)."""

    strategy: str
    replicas: tuple[ReplicaLogEnd, ...]

    @property
    def furthest(self) -> ReplicaLogEnd | None:
        """The live replica that would be elected on request."""
        live = {known.broker_id: end for known in self.replicas if known.is_live and (end := known.log_end)}
        chosen = furthest_of(live, {known.broker_id for known in self.replicas if known.had_everything}, ())
        return next((known for known in self.replicas if known.broker_id == chosen), None)


class PartitionReassignment(NamedTuple):
    """A reassignment under way. `replicas` has the target's, then those that leave."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    throttle: int = 0  # bytes per second; 0: none


class PartitionChange(NamedTuple):
    """A committed change of a partition, and why the controller made it."""

    version: int  # the metadata version that it made
    at_ms: int  # wall time
    partition: TopicPartition
    reason: str
    before: PartitionState
    after: PartitionState


class PartitionChanges(NamedTuple):
    """The answer of `describe_partition_changes`."""

    kept_since_ms: int  # wall time; the controller does not know earlier changes
    changes: tuple[PartitionChange, ...]  # oldest first


class ReplicaInfo(NamedTuple):
    """One replica in a log directory."""

    size: int  # bytes
    offset_lag: int  # behind the high watermark; a future replica's behind the replica, -1 if that is gone
    is_future: bool  # a copy in the making, which will take the replica's place


class ReplicaDescription(NamedTuple):
    """A replica, described by its broker."""

    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int  # bytes
    epochs: tuple[tuple[int, int], ...]  # leader epochs, each with the offset where it begins


class BrokerReplicas(NamedTuple):
    """A broker's replicas, described by itself."""

    replicas: dict[TopicPartition, ReplicaDescription]
    longest_step_s: float  # the longest time that its event loop was held, in the last one to two minutes


class LogDirDescription(NamedTuple):
    """One log directory of a broker."""

    log_dir: str
    error: ErrorCode
    total_bytes: int  # size of the file system; -1 if it does not say
    usable_bytes: int
    replicas: tuple[tuple[TopicPartition, ReplicaInfo], ...]
