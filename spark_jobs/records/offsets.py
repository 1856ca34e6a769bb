"""The bounds of queries, and the offsets that Spark checkpoints. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from replog.config.properties import MAX_INT, MAX_LONG, number_in
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition, validate_topic_name

TOPIC_IDS = "@topicIds"  # a key next to the topics; no topic can have this name


@dataclass(frozen=True)
class Bound:
    """The begin or end of a query: the same `everywhere`, or one for `each` partition."""

    option: str  # the option that set it
    everywhere: int | None = None  # an offset or timestamp for ListOffsets (ms, LATEST, EARLIEST)
    each: Mapping[TopicPartition, int] | None = None  # timestamps, or offsets with LATEST and EARLIEST
    by_time: bool = False

    @property
    def values(self) -> Iterable[int | None]:
        return (self.everywhere,) if self.each is None else self.each.values()

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the bound of each partition. Raises INVALID_CONFIG if `each` names other partitions than these."""
        if self.each is None:
            assert self.everywhere is not None
            return dict.fromkeys(partitions, self.everywhere)
        wanted = set(partitions)
        if wanted != self.each.keys():
            named, there = (" ".join(map(str, sorted(group))) or "none" for group in (self.each, wanted))
            raise ErrorCode.INVALID_CONFIG.error(
                f"option {self.option} must name every partition (-1 latest, -2 earliest, for offsets): it names "
                f"{named}; there are {there}"
            )
        return dict(self.each)


def parse_partitions(option: str, text: str, least: int) -> dict[TopicPartition, int]:
    """Parse `{"topic":{"0":23}}` with numbers from `least` on. Raises INVALID_CONFIG, INVALID_TOPIC_EXCEPTION."""
    try:
        return _partitions(json.loads(text), least)
    except (ValueError, TypeError, AttributeError):
        raise ErrorCode.INVALID_CONFIG.error(
            f'option {option}={text}: give JSON such as {{"flights":{{"0":23,"1":{least}}}}}, with numbers from '
            f"{least} on"
        ) from None


def _partitions(document: Any, least: int) -> dict[TopicPartition, int]:
    """Parse partitions' numbers; the topic ids of a checkpoint are skipped. Raises ValueError and others."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if topic == TOPIC_IDS:
            continue
        validate_topic_name(topic)
        for number, value in partitions.items():
            partition = number_in(number, MAX_INT)
            if partition is None or type(value) is not int or not least <= value <= MAX_LONG:
                raise ValueError
            offsets[TopicPartition(topic, partition)] = value
    return offsets


class StreamOffset(NamedTuple):
    """The progress of a streaming query: the next offset of every partition, and the ids of the topics.

    As JSON it is what Spark's Kafka source writes, and the ids, which tell a topic from a later one of the same name.
    """

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, str]  # hexadecimal

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "StreamOffset":
        """Parse a checkpoint's offset. Raises INVALID_REQUEST if neither we nor Spark's Kafka source wrote it."""
        try:
            offsets = _partitions(document, 0)
            ids = {str(topic): bytes.fromhex(id_).hex() for topic, id_ in document.get(TOPIC_IDS, {}).items()}
        except (ValueError, TypeError, AttributeError, ReplogError):
            raise ErrorCode.INVALID_REQUEST.error(f"the checkpoint's offset is not ours: {document}") from None
        return cls(offsets, ids)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            document.setdefault(topic, {})[str(partition)] = offset
        return {**document, TOPIC_IDS: dict(sorted(self.topic_ids.items()))}

    def same_topic(self, topic: str, other: "StreamOffset") -> bool:
        """Return True if both mean the same topic; if an id is not known, the name decides."""
        mine, theirs = self.topic_ids.get(topic), other.topic_ids.get(topic)
        return mine is None or theirs is None or mine == theirs


def offsets_behind_latest(source: Mapping[str, Any]) -> dict[str, str]:
    """Return the `metrics` that Spark's Kafka source would have, for one of a progress report's `sources`.

    Spark takes none from a Python source. They are empty before the first micro-batch."""
    ends = [source["endOffset"], source["latestOffset"]]
    read, latest = (json.loads(end) if isinstance(end, str) and end not in ("", "None") else end for end in ends)
    if not isinstance(read, dict) or not isinstance(latest, dict):
        return {}
    begun, ended = StreamOffset.from_json(read).offsets, StreamOffset.from_json(latest).offsets
    behind = [max(0, ended[partition] - offset) for partition, offset in begun.items() if partition in ended]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
