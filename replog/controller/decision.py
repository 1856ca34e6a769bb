"""Decisions: the changes to commit, their versions, and the partitions among them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

A = TypeVar("A")

MAX_SHOWN = 300  # characters of a name that a client sent


@dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """The changes to commit in one piece, not yet numbered, and the answer that is valid after the commit.

    If there may be thousands, they are made one by one as they are taken, with None for each partition that stays as it
    is. Nothing else may be decided meanwhile. The answer is complete when all were taken."""

    changes: Iterable[Change | None]  # an empty sequence: nothing to commit
    answer: A


def numbered(changes: Iterable[Change | None], after_version: int) -> Iterator[Change | None]:
    """Yields the changes with their versions, each one more than the last; None for None."""
    version = after_version
    for change in changes:
        if change is None:
            yield None
            continue
        version += 1
        yield change._replace(version=version)


class PartitionChanges:
    """The partitions of an image with changes on top of it: each sees the ones before. `made` are those to commit."""

    def __init__(self, image: MetadataImage) -> None:
        self.made: list[Change] = []
        self._image = image
        self._changed: dict[TopicPartition, PartitionState] = {}

    def find(self, tp: TopicPartition) -> PartitionState | None:
        return self._changed.get(tp) or self._image.partitions.get(tp)

    def get(self, tp: TopicPartition) -> PartitionState:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        state = self.find(tp)
        if state is None:
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no partition {str(tp)[:MAX_SHOWN]}")
        return state

    def put(self, tp: TopicPartition, state: PartitionState) -> None:
        """Record the state, unless it is the present one."""
        if state is not self.get(tp):
            self._changed[tp] = state
            self.made.append(Change("partition", tp, state, self._image.topics[tp.topic].topic_id))
