"""The partitions that one decision changes: each change sees the ones before it. Pure."""

from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

MAX_SHOWN = 300  # characters of a name that a client sent


class PartitionChanges:
    """The partitions of an image with changes on top of it. `made` are the changes to commit."""

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
