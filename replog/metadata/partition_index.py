"""Finds the partitions of a topic, on a broker, led by it, or in an unusual state, without looking at the others."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from replog.metadata.values import PartitionState
from replog.topic import TopicPartition


class Names:
    """A set of partitions in order, so that decisions from it are repeatable. It is kept by topic: one with thousands
    of partitions is removed in one step."""

    def __init__(self) -> None:
        self.by_topic: defaultdict[str, dict[TopicPartition, None]] = defaultdict(dict)  # none is empty

    def __iter__(self) -> Iterator[TopicPartition]:
        return chain.from_iterable(self.by_topic.values())

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    def discard(self, tp: TopicPartition) -> None:
        names = self.by_topic.get(tp.topic)
        if names is not None:
            names.pop(tp, None)
            if not names:
                del self.by_topic[tp.topic]


class OfTopic(NamedTuple):
    """The partitions of a topic, and its id."""

    topic_id: bytes
    states: dict[TopicPartition, PartitionState]


_NONE = Names()


class PartitionIndex:
    """An index that costs a few steps for each changed partition, for each deleted topic, and for each answer."""

    def __init__(self) -> None:
        self.reassigning = Names()
        self.displaced = Names()  # the preferred replica does not lead
        self._topics: dict[str, OfTopic] = {}
        self._names: dict[bytes, str] = {}  # the topics' by their ids
        self._on_broker: defaultdict[int, Names] = defaultdict(Names)
        self._led_by: defaultdict[int, Names] = defaultdict(Names)
        self._behind_on: defaultdict[int, Names] = defaultdict(Names)

    @property
    def _by_broker(self) -> tuple[defaultdict[int, Names], ...]:
        return self._on_broker, self._led_by, self._behind_on

    def topic_id(self, topic: str) -> bytes | None:
        """The id under which the topic has partitions here; None if it has none."""
        known = self._topics.get(topic)
        return known.topic_id if known is not None else None

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic that has partitions here under this id; None if there is none."""
        return self._names.get(topic_id)

    def of_topic(self, topic: str) -> Mapping[TopicPartition, PartitionState]:
        known = self._topics.get(topic)
        return known.states if known is not None else {}

    def on_broker(self, broker_id: int) -> Names:
        return self._on_broker.get(broker_id, _NONE)

    def led_by(self, broker_id: int) -> Names:
        """The partitions that the broker leads; with NO_LEADER, those without a leader."""
        return self._led_by.get(broker_id, _NONE)

    def behind_on(self, broker_id: int) -> Names:
        """The partitions whose replica there has to catch up with a leader."""
        return self._behind_on.get(broker_id, _NONE)

    def put(self, tp: TopicPartition, topic_id: bytes, new: PartitionState) -> None:
        """Index a partition. All partitions of a topic have the same id."""
        topic = tp.topic
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = OfTopic(topic_id, {})
            self._names[topic_id] = topic
        old, known.states[tp] = known.states.get(tp), new
        before = old.replicas if old is not None else ()
        if before != new.replicas:
            for broker_id in before:
                if broker_id not in new.replicas:
                    self._on_broker[broker_id].discard(tp)
            for broker_id in new.replicas:
                if broker_id not in before:
                    self._on_broker[broker_id].by_topic[topic][tp] = None
        if old is None or old.leader != new.leader:
            if old is not None:
                self._led_by[old.leader].discard(tp)
            self._led_by[new.leader].by_topic[topic][tp] = None
        for broker_id in old.behind if old is not None else ():
            self._behind_on[broker_id].discard(tp)
        for broker_id in new.behind:
            self._behind_on[broker_id].by_topic[topic][tp] = None
        for names, holds in ((self.reassigning, new.reassigning), (self.displaced, new.leader not in new.replicas[:1])):
            if holds:
                names.by_topic[topic][tp] = None
            elif old is not None:
                names.discard(tp)

    def take_over(self, other: "PartitionIndex") -> None:
        """Add the topics of another index, none of which have partitions here."""
        self._topics |= other._topics
        self._names |= other._names
        for mine, theirs in zip(self._by_broker, other._by_broker, strict=True):
            for broker_id, names in theirs.items():
                mine[broker_id].by_topic |= names.by_topic
        self.reassigning.by_topic |= other.reassigning.by_topic
        self.displaced.by_topic |= other.displaced.by_topic

    def forget_topic(self, topic: str) -> Mapping[TopicPartition, PartitionState]:
        """Remove the topic's partitions, and return them."""
        for by_broker in self._by_broker:
            for names in by_broker.values():
                names.by_topic.pop(topic, None)
        self.reassigning.by_topic.pop(topic, None)
        self.displaced.by_topic.pop(topic, None)
        gone = self._topics.pop(topic)
        self._names.pop(gone.topic_id, None)
        return gone.states
