"""Which partitions are of a topic, on a broker, led by it, or not as they usually are: without a look at the others."""

from collections.abc import Iterable, Mapping

from replog.metadata import PartitionState
from replog.topic import TopicPartition

Names = Mapping[TopicPartition, None]  # a set that keeps its order, so that what is decided from it is repeatable

_NONE: Names = {}


class PartitionIndex:
    """Costs a few steps a changed partition, and so many a question as there are answers."""

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
        if new is not None:
            self._of_topic.setdefault(tp.topic, {})[tp.partition] = new
        elif old is not None:
            _drop(self._of_topic, tp.topic, tp.partition)
        before, after = (old.replicas if old else ()), (new.replicas if new else ())
        if before != after:
            _move(self._on_broker, tp, set(before).difference(after), set(after).difference(before))
        led_before, led_after = ((old.leader,) if old else ()), ((new.leader,) if new else ())
        if led_before != led_after:
            _move(self._led_by, tp, led_before, led_after)
        _note(self.reassigning, tp, new is not None and new.reassigning)
        _note(self.displaced, tp, new is not None and new.leader != new.replicas[0])


def _drop(table: dict[str, dict[int, PartitionState]], topic: str, partition: int) -> None:
    table[topic].pop(partition)
    if not table[topic]:
        del table[topic]


def _move(
    table: dict[int, dict[TopicPartition, None]], tp: TopicPartition, gone: Iterable[int], come: Iterable[int]
) -> None:
    for broker_id in gone:
        del table[broker_id][tp]
    for broker_id in come:
        table.setdefault(broker_id, {})[tp] = None


def _note(names: dict[TopicPartition, None], tp: TopicPartition, holds: bool) -> None:
    if holds:
        names[tp] = None
    else:
        names.pop(tp, None)
