"""Finds the partitions of a topic, on a broker, led by it, or in an unusual state, without looking at the others."""

from collections.abc import Mapping

from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

Names = Mapping[TopicPartition, None]  # a set that keeps its order, so that what is decided from it is repeatable

_NONE: Names = {}


class PartitionIndex:
    """Costs a few steps for each changed partition, and for each answer."""

    def __init__(self) -> None:
        self.reassigning: dict[TopicPartition, None] = {}
        self.displaced: dict[TopicPartition, None] = {}  # not led by their preferred replica
        self._of_topic: dict[str, dict[int, PartitionState]] = {}
        self._on_broker: dict[int, dict[TopicPartition, None]] = {}
        self._led_by: dict[int, dict[TopicPartition, None]] = {}

    def of_topic(self, topic: str) -> Mapping[int, PartitionState]:
        return self._of_topic.get(topic, {})

    def on_broker(self, broker_id: int) -> Names:
        return self._on_broker.get(broker_id, _NONE)

    def led_by(self, broker_id: int) -> Names:
        """NO_LEADER: those without a leader."""
        return self._led_by.get(broker_id, _NONE)

    def change(self, tp: TopicPartition, old: PartitionState | None, new: PartitionState | None) -> None:
        """None: it is not there, before or after."""
        if new is None:
            if old is not None:
                self._drop(tp, old)
            return
        self._of_topic.setdefault(tp.topic, {})[tp.partition] = new
        before = old.replicas if old is not None else ()
        if before != new.replicas:
            for broker_id in before:
                if broker_id not in new.replicas:
                    del self._on_broker[broker_id][tp]
            for broker_id in new.replicas:
                if broker_id not in before:
                    self._on_broker.setdefault(broker_id, {})[tp] = None
        if old is None or old.leader != new.leader:
            if old is not None:
                del self._led_by[old.leader][tp]
            self._led_by.setdefault(new.leader, {})[tp] = None
        _note(self.reassigning, tp, new.reassigning)
        _note(self.displaced, tp, new.leader != new.replicas[0])

    def _drop(self, tp: TopicPartition, old: PartitionState) -> None:
        of_topic = self._of_topic[tp.topic]
        del of_topic[tp.partition]
        if not of_topic:
            del self._of_topic[tp.topic]
        for broker_id in old.replicas:
            del self._on_broker[broker_id][tp]
        del self._led_by[old.leader][tp]
        self.reassigning.pop(tp, None)
        self.displaced.pop(tp, None)


def _note(names: dict[TopicPartition, None], tp: TopicPartition, holds: bool) -> None:
    if holds:
        names[tp] = None
    else:
        names.pop(tp, None)
