"""The cluster's metadata as one process knows it: records in, plain values out.

The controller holds one image and so does every broker; both change it only by `apply`, in version order.
"""

from collections.abc import Iterator
from sys import intern
from typing import Any, NamedTuple, TypeVar

from cluster.partition_index import PartitionIndex
from replog.metadata import Broker, PartitionState, Topic
from replog.rpc.v1 import metadata_pb2 as pb
from replog.topic import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

CLUSTER_KEY = "cluster"
PRODUCER_IDS_KEY = "producer-ids"
COLLECTED_KEY = "collected"


def broker_key(broker_id: int) -> str:
    return f"broker/{broker_id}"


def broker_config_key(broker_id: int) -> str:
    return f"broker-config/{broker_id}"


def topic_key(topic: str) -> str:
    return f"topic/{topic}"


def partition_key(tp: TopicPartition) -> str:
    return f"partition/{tp.topic}/{tp.partition}"


class Change(NamedTuple):
    """A record as values. Most of the work that a record makes is this, and it can be done before the first of many is
    put into an image."""

    record: pb.MetadataRecord
    version: int
    kind: str  # the value's, or what kind of thing was deleted
    name: Any  # which of them, if there are many
    value: Any  # None: it was deleted

    @classmethod
    def of(cls, record: pb.MetadataRecord) -> "Change":
        name: Any = None
        value: Any = None
        match kind := record.WhichOneof("value"):
            case "cluster":
                value = record.cluster.cluster_id
            case "broker":
                name, value = record.broker.broker_id, broker_from_record(record.broker)
            case "broker_config":
                name, value = record.broker_config.broker_id, dict(record.broker_config.configs)
            case "topic":
                name, value = record.topic.topic, topic_from_record(record.topic)
            case "partition":
                name = TopicPartition(intern(record.partition.topic), record.partition.partition)  # one for a topic
                value = partition_from_record(record.partition)
            case "producer_ids":
                value = record.producer_ids.next_producer_id
            case "collected":
                value = record.collected.version
            case None:
                kind, _, name = record.key.partition("/")
                if kind == "partition":
                    topic, _, partition = name.rpartition("/")
                    name = TopicPartition(topic, int(partition))
                elif kind == "broker":
                    name = int(name)
        return cls(record, record.version, kind, name, value)


class MetadataImage:
    """Every current value, and the version of the last record applied."""

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id = ""
        self.next_producer_id = 0  # the first that no broker was given
        self.brokers: dict[int, Broker] = {}
        self.broker_configs: dict[
            int, dict[str, str]
        ] = {}  # of brokers that go by other settings than they started with
        self.topics: dict[str, Topic] = {}
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.index = PartitionIndex()  # of `partitions`

    def broker(self, broker_id: int) -> Broker | None:
        return self.brokers.get(broker_id)

    def partitions_of(self, topic: str) -> dict[int, PartitionState]:
        """The topic's partitions by number, in order."""
        return dict(sorted(self.index.of_topic(topic).items()))

    def apply(self, record: pb.MetadataRecord) -> None:
        """As `put`."""
        if record.version > self.version:
            self.put(Change.of(record))

    def put(self, change: Change) -> None:
        """Changes older than the image are ignored: a resumed watch may repeat some."""
        if change.version <= self.version:
            return
        self.version = change.version
        match change.kind:
            case "cluster":
                self.cluster_id = change.value
            case "broker":
                _set(self.brokers, change.name, change.value)
            case "broker_config":
                self.broker_configs[change.name] = change.value
            case "topic":
                _set(self.topics, change.name, change.value)
            case "partition":
                self.index.change(change.name, self.partitions.get(change.name), change.value)
                _set(self.partitions, change.name, change.value)
            case "producer_ids":
                self.next_producer_id = change.value

    def names(self) -> Iterator[str]:
        """The keys of all that may be deleted."""
        yield from map(partition_key, self.partitions)
        yield from map(topic_key, self.topics)


def _set(values: dict[K, V], name: K, value: V | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def topic_from_record(record: pb.TopicRecord) -> Topic:
    return Topic(record.topic, record.topic_id, dict(record.configs))


def broker_from_record(record: pb.BrokerRecord) -> Broker:
    return Broker(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        address=record.address,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
    )


def broker_to_record(broker: Broker) -> pb.BrokerRecord:
    return pb.BrokerRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        address=broker.address,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def partition_from_record(record: pb.PartitionRecord) -> PartitionState:
    return PartitionState(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        elr=tuple(record.elr),
        leader=record.leader,
        last_known_leader=record.last_known_leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        recovering=record.recovery_state == pb.RECOVERING,
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
    )


def partition_to_record(tp: TopicPartition, topic_id: bytes, state: PartitionState) -> pb.PartitionRecord:
    return pb.PartitionRecord(
        topic=tp.topic,
        topic_id=topic_id,
        partition=tp.partition,
        replicas=state.replicas,
        isr=state.isr,
        elr=state.elr,
        leader=state.leader,
        last_known_leader=state.last_known_leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        recovery_state=pb.RECOVERING if state.recovering else pb.RECOVERED,
        adding_replicas=state.adding,
        removing_replicas=state.removing,
    )
