"""The cluster's metadata as one process knows it: changes in, plain values out.

The controller holds one image and so does every broker; both change it only by `put`, in version order.
"""

from collections.abc import Iterator
from typing import TypeVar

from replog.metadata.changes import Change, key_of
from replog.metadata.partition_index import PartitionIndex
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.topic import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class MetadataImage:
    """Every current value, and the version of the last change put in."""

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id = ""
        self.next_producer_id = 0  # the first that no broker was given
        self.brokers: dict[int, BrokerRegistration] = {}
        self.broker_configs: dict[int, dict[str, str]] = {}  # other settings than those that brokers started with
        self.topics: dict[str, Topic] = {}
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.index = PartitionIndex()  # of `partitions`

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def partitions_of(self, topic: str) -> dict[int, PartitionState]:
        """The topic's partitions by number, in order."""
        return dict(sorted(self.index.of_topic(topic).items()))

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
        yield from (key_of("partition", tp) for tp in self.partitions)
        yield from (key_of("topic", name) for name in self.topics)


def _set(values: dict[K, V], name: K, value: V | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
