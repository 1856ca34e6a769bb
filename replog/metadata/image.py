"""The cluster's metadata as one process knows it: changes in, plain values out.

The controller holds one image and so does every broker; both change it only in version order, by `put` or a `Batch`.

Every controller that becomes active begins a history of the metadata. So the changes of two controllers to two copies
of one store are told apart, though their versions are the same numbers, as leader epochs tell logs apart (FE-5). They
show if a store is behind, or holds something else (CT-24)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from replog.log.directories.identity import Position
from replog.metadata.acl_table import AclTable
from replog.metadata.changes import Change
from replog.metadata.partition_index import PartitionIndex
from replog.metadata.values import BrokerRegistration, PartitionState, StandingAudit, Topic
from replog.topic import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

MAX_HISTORIES = 500
HISTORY_ID_SIZE = 16


class History(NamedTuple):
    """One controller's changes, until the next history begins."""

    history_id: bytes
    begins: int  # the version of its first change


Lineage = Sequence[History]  # oldest first; older ones may be forgotten


def begin(lineage: Lineage, history_id: bytes, newest: int) -> tuple[History, ...]:
    """Return the lineage with a history that begins after the version `newest`."""
    return (*lineage, History(history_id, newest + 1))[-MAX_HISTORIES:]


def continues(lineage: Lineage, newest: int, position: Position) -> bool:
    """Return True if metadata of this lineage, at the version `newest`, contain `position`.

    A position older than all remembered histories is trusted."""
    for number, history in enumerate(lineage):
        if history.history_id == position.history_id:
            end = lineage[number + 1].begins - 1 if number + 1 < len(lineage) else newest
            return position.version <= end
    return position.version < (lineage[0].begins if lineage else newest + 1)


class MetadataImage:
    """Every current value, and the version of the last change put in."""

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id = ""
        self.lineage: tuple[History, ...] = ()
        self.next_producer_id = 0  # no broker was given this one or a later one
        self.brokers: dict[int, BrokerRegistration] = {}
        self.broker_versions: dict[int, int] = {}  # the version of each one's record
        self.broker_configs: dict[int, dict[str, str]] = {}  # replace settings that brokers started with
        self.topics: dict[str, Topic] = {}
        self.topic_versions: dict[str, int] = {}  # the version of each one's record
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.index = PartitionIndex()  # always holds the same as `partitions`
        self.acls = AclTable()
        self.client_quotas: dict[str, dict[str, str]] = {}
        self.audit: StandingAudit | None = None

    @property
    def position(self) -> Position:
        return self.position_after(())

    def position_after(self, changes: Sequence[Change]) -> Position:
        """Return the position once these changes, in version order, are put."""
        lineage = next((change.value for change in reversed(changes) if change.kind == "lineage"), self.lineage)
        version = changes[-1].version if changes else self.version
        return Position(self.cluster_id, lineage[-1].history_id if lineage else b"", version)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def partitions_of(self, topic: str) -> dict[int, PartitionState]:
        """The topic's partitions by number, in order."""
        return {tp.partition: state for tp, state in sorted(self.index.of_topic(topic).items())}

    def put(self, change: Change) -> None:
        """Apply a change. One older than the image is ignored: a resumed watch may repeat some."""
        if change.version <= self.version:
            return
        self.version = change.version
        match change.kind:
            case "cluster":
                self.cluster_id = change.value
            case "lineage":
                self.lineage = change.value
            case "broker":
                _set(self.brokers, change.name, change.value)
                _set(self.broker_versions, change.name, change.version if change.value is not None else None)
            case "broker_config":
                _set(self.broker_configs, change.name, change.value)
            case "topic":
                self._leave(change.name, change.value.topic_id if change.value is not None else None)
                _set(self.topics, change.name, change.value)
                _set(self.topic_versions, change.name, change.version if change.value is not None else None)
            case "partition" if change.value is not None:
                self._leave(change.name.topic, change.topic_id)
                self.index.put(change.name, change.topic_id, change.value)
                self.partitions[change.name] = change.value
            case "producer_ids":
                self.next_producer_id = change.value
            case "acl":
                self.acls.put(change.name, change.value)
            case "client_quota":
                _set(self.client_quotas, change.name, change.value)
            case "audit":
                self.audit = change.value

    def knows(self, topic: str) -> bool:
        """Return True if the topic or partitions of it are here."""
        return topic in self.topics or self.index.topic_id(topic) is not None

    def take_over(self, newer: "MetadataImage") -> None:
        """Add the topics of another image, none of which are known here."""
        self.topics |= newer.topics
        self.topic_versions |= newer.topic_versions
        self.partitions |= newer.partitions
        self.index.take_over(newer.index)
        self.version = max(self.version, newer.version)

    def _leave(self, topic: str, topic_id: bytes | None) -> None:
        """Drop the topic's partitions unless they have this id; None drops all. Another id shows that the topic was
        deleted and created again: only the newer record of one key is sent (CT-19)."""
        if self.index.topic_id(topic) not in (topic_id, None):
            for tp in self.index.forget_topic(topic):
                del self.partitions[tp]


def _set(values: dict[K, V], name: K, value: V | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


class Batch:
    """Puts topics that the image does not know into an image of their own, which is taken over whole: a short step,
    however many partitions a new topic has.

    Nothing else changes the image between the first `add` and `put`."""

    def __init__(self, image: MetadataImage, changes: Iterable[Change] = ()) -> None:
        self.changes: list[Change] = []
        self._image = image
        self._new = MetadataImage()
        self._others: list[Change] = []
        for change in changes:
            self.add(change)

    def add(self, change: Change) -> None:
        """Add changes in version order. Those older than the image are ignored."""
        if change.version <= self._image.version:
            return
        self.changes.append(change)
        match change.kind:
            case "partition":
                topic = change.name.topic
            case "topic":
                topic = change.name
            case _:
                topic = None
        if topic is None or self._image.knows(topic):
            self._others.append(change)
        else:
            self._new.put(change)

    def put(self) -> None:
        """Put all of them, with the same result as `MetadataImage.put` of each."""
        for change in self._others:
            self._image.put(change)
        self._image.take_over(self._new)
