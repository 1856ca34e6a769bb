"""Plans for replicas: away from brokers, or evenly over all. Their JSON is that of Kafka's tools."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from replog.config.properties import MAX_INT
from replog.errors import ErrorCode
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client import TopicDescription
    from replog.client.descriptions import BrokerDescription

T = TypeVar("T")
Assignment = dict[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, in preference order."""


def assignment_of(
    topics: Iterable["TopicDescription"], brokers: Iterable["BrokerDescription"] = (), leaving: int | None = None
) -> Assignment:
    """Return the replicas of partitions once present moves have ended. A move away from `leaving` that waits for one of
    `brokers` that does not serve counts as not begun."""
    gone = {broker.broker_id for broker in brokers if broker.fenced}
    assignment = {}
    for topic in topics:
        for p in topic.partitions:
            target = [r for r in p.replicas if r not in p.removing_replicas]
            awaited = [r for r in p.adding_replicas if r in target and r in gone and r not in p.isr]
            if awaited and leaving in p.removing_replicas:
                target[target.index(awaited[0])] = leaving
            assignment[TopicPartition(topic.topic, p.partition)] = tuple(target)
    return assignment


class Planner:
    """Chooses brokers for replicas: active and not cordoned, in a rack that the partition does not use, then with the
    fewest replicas."""

    def __init__(self, assignment: Assignment, brokers: Sequence["BrokerDescription"]) -> None:
        self._racks = {broker.broker_id: broker.rack for broker in brokers}
        self._takers = [broker.broker_id for broker in brokers if broker.state == "active"]
        self._assignment = dict(assignment)
        self._replicas = Counter(broker for replicas in assignment.values() for broker in replicas)
        self._first = Counter(replicas[0] for replicas in assignment.values() if replicas)

    def leave(self, leaving: Collection[int]) -> Assignment:
        """Return new replicas for each partition on these brokers. A successor takes the place of the one that leaves.

        Raises INVALID_REPLICA_ASSIGNMENT if no broker is left to take a replica."""
        moved = {}
        self._takers = [taker for taker in self._takers if taker not in leaving]
        for tp, replicas in self._assignment.items():
            if any(broker in leaving for broker in replicas):
                for place, broker in enumerate(replicas):
                    if broker in leaving:
                        replicas = self._replaced(replicas, place, self._successor(tp, replicas, place))
                moved[tp] = replicas
        self._assignment |= moved
        return moved

    def spread(self) -> Assignment:
        """Return few moves after which no taker has two replicas more than another one that could take one of them."""
        before = dict(self._assignment)
        moving = True
        while moving:
            moving = False
            for tp, replicas in list(self._assignment.items()):
                for place in range(len(replicas)):
                    better = self._better(replicas, place)
                    if better is not None:
                        replicas = self._replaced(replicas, place, better)
                        moving = True
                self._assignment[tp] = replicas
        return {tp: replicas for tp, replicas in self._assignment.items() if replicas != before[tp]}

    def _better(self, replicas: Sequence[int], place: int) -> int | None:
        """Return a broker with at least two replicas fewer than the one at this place, in a rack that is no worse."""
        broker, others = replicas[place], [r for r in replicas if r != replicas[place]]
        candidates = [
            taker
            for taker in self._takers
            if taker not in replicas
            and self._replicas[taker] <= self._replicas[broker] - 2
            and self._shared(others, taker) <= self._shared(others, broker)
        ]
        return min(candidates, key=lambda taker: (self._replicas[taker], taker), default=None)

    def _successor(self, tp: TopicPartition, replicas: Sequence[int], place: int) -> int:
        others = [r for r in replicas if r != replicas[place]]
        candidates = [taker for taker in self._takers if taker not in replicas]
        if not candidates:
            raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(
                f"{tp} is on brokers {','.join(map(str, replicas))}, and there is no other active broker to take the "
                f"replica of broker {replicas[place]}; start one, or move it by hand to fewer: replog partition "
                f"reassign --topic {tp.topic} --partition {tp.partition} --replicas ID,ID"
            )

        def load(taker: int) -> tuple[int, int, int, int]:
            leads = self._first[taker] if place == 0 else 0
            return self._shared(others, taker), leads, self._replicas[taker], taker

        return min(candidates, key=load)

    def _shared(self, others: Iterable[int], broker: int) -> int:
        """Count those of `others` that are in the broker's rack."""
        return sum(self._racks.get(other) == self._racks.get(broker) for other in others)

    def _replaced(self, replicas: Sequence[int], place: int, taker: int) -> tuple[int, ...]:
        broker = replicas[place]
        self._replicas[taker] += 1
        self._replicas[broker] -= 1
        if place == 0:
            self._first[taker] += 1
            self._first[broker] -= 1
        return (*replicas[:place], taker, *replicas[place + 1 :])


def to_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Format a plan like kafka-reassign-partitions.sh, in one line."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def from_json(text: str, source: str) -> Assignment:
    """Parse a plan of `to_json` or kafka-reassign-partitions.sh. Raises INVALID_REQUEST."""

    def replicas(row: Any) -> tuple[int, ...] | None:
        if any(directory != "any" for directory in row.get("log_dirs", ())):
            raise ValueError("log_dirs other than any: use replog partition move for those")
        return tuple(row["replicas"]) if all(map(is_number, row["replicas"])) else None

    return by_partition(text, f"{source} is no plan", "replicas", "[1, 2]", replicas)


def by_partition(
    text: str, refused: str, what: str, example: str, parse: Callable[[Any], T | None]
) -> dict[TopicPartition, T]:
    """Parse a file of Kafka's tools, with `what` for each partition; `parse` returns None if a row has none.

    Raises INVALID_REQUEST that begins with `refused`."""
    try:
        document, parsed = json.loads(text), dict[TopicPartition, T]()
        if document.get("version", 1) != 1:
            raise ValueError(f"version {document['version']!r} is not 1")
        for row in document["partitions"]:
            tp, value = TopicPartition(row["topic"], row["partition"]), parse(row)
            if value is None or not isinstance(tp.topic, str) or not is_number(tp.partition):
                raise ValueError(f"{str(row)[:100]} is no partition with its {what}")
            if tp in parsed:
                raise ValueError(f"{tp} is named twice")
            parsed[tp] = value
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ErrorCode.INVALID_REQUEST.error(
            f'{refused} ({error}); it looks like {{"version": 1, "partitions": [{{"topic": "t", "partition": 0, '
            f'"{what}": {example}}}]}}'
        ) from None
    return parsed


def is_number(value: Any, least: int = 0, most: int = MAX_INT) -> bool:
    """Return True if a value of JSON is a whole number in that range, such as an id or a partition."""
    return type(value) is int and least <= value <= most
