"""Where queries begin, end and stand: bounds as asked for, and the offsets that Spark checkpoints. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition, validate_topic_name

TOPIC_IDS = "@topicIds"  # beside the topics; no topic can have this name


@dataclass(frozen=True)
class Bound:
    """Where a query begins or ends: `everywhere` the same, or each partition's own."""

    option: str  # that said so
    everywhere: int | None = None  # an offset or timestamp as ListOffsets takes it (ms, LATEST, EARLIEST)
    each: Mapping[TopicPartition, int] | None = None  # timestamps; or offsets, LATEST and EARLIEST among them
    by_time: bool = False

    @property
    def values(self) -> Iterable[int | None]:
        return (self.everywhere,) if self.each is None else self.each.values()

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Each partition's. Raises INVALID_CONFIG unless exactly these are named, if any are."""
        if self.each is None:
            assert self.everywhere is not None
            return dict.fromkeys(partitions, self.everywhere)
        wanted = set(partitions)
        if wanted != self.each.keys():
            named, there = (" ".join(map(str, sorted(group))) or "none" for group in (self.each, wanted))
            raise ReplogError(
                ErrorCode.INVALID_CONFIG,
                f"option {self.option} must name every partition (-1 latest, -2 earliest, for offsets): it names "
                f"{named}; there are {there}",
            )
        return dict(self.each)


def parse_partitions(option: str, text: str, least: int) -> dict[TopicPartition, int]:
    """`{"topic":{"0":23}}` with numbers from `least` on. Raises INVALID_CONFIG, INVALID_TOPIC_EXCEPTION."""
    try:
        return _partitions(json.loads(text), least)
    except (ValueError, TypeError, AttributeError):
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f'option {option}={text}: give JSON such as {{"flights":{{"0":23,"1":{least}}}}}, with numbers from '
            f"{least} on",
        ) from None


def _partitions(document: Any, least: int) -> dict[TopicPartition, int]:
    """Anything else in a checkpoint is ignored."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if topic == TOPIC_IDS:
            continue
        validate_topic_name(topic)
        for number, value in partitions.items():
            if not (number.isdecimal() and int(number) < 2**31 and type(value) is int and least <= value < 2**63):
                raise ValueError
            offsets[TopicPartition(topic, int(number))] = value
    return offsets


class StreamOffset(NamedTuple):
    """How far a streaming query is: the next offset of every partition, and whose offsets these are.

    As JSON it is what Spark's Kafka source writes, with the topics' ids besides, which tell a topic from another of
    the same name that came later.
    """

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, str]  # in hexadecimal

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "StreamOffset":
        """Raises INVALID_REQUEST for what no query of ours, nor Spark's Kafka source, has written."""
        try:
            offsets = _partitions(document, 0)
            ids = {str(topic): bytes.fromhex(id_).hex() for topic, id_ in document.get(TOPIC_IDS, {}).items()}
        except (ValueError, TypeError, AttributeError, ReplogError):
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"the checkpoint's offset is not ours: {document}") from None
        return cls(offsets, ids)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            document.setdefault(topic, {})[str(partition)] = offset
        return {**document, TOPIC_IDS: dict(sorted(self.topic_ids.items()))}

    def same_topic(self, topic: str, other: "StreamOffset") -> bool:
        """Whether both mean the same topic; where either id is not known, the name has to do."""
        mine, theirs = self.topic_ids.get(topic), other.topic_ids.get(topic)
        return mine is None or theirs is None or mine == theirs
