"""What one decision makes of partitions: each sees what the ones before it left. Pure."""

from cluster.controller.records import partition_record
from cluster.metadata_image import MetadataImage
from replog.errors import ErrorCode, ReplogError
from replog.metadata import PartitionState
from replog.rpc.v1 import metadata_pb2 as pb
from replog.topic import TopicPartition

MAX_SHOWN = 300  # characters of a name from outside


class PartitionChanges:
    """The partitions of an image with changes on top of it; `records` are what is to be committed."""

    def __init__(self, image: MetadataImage) -> None:
        self.records: list[pb.MetadataRecord] = []
        self._image = image
        self._changed: dict[TopicPartition, PartitionState] = {}

    def find(self, tp: TopicPartition) -> PartitionState | None:
        return self._changed.get(tp) or self._image.partitions.get(tp)

    def get(self, tp: TopicPartition) -> PartitionState:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        state = self.find(tp)
        if state is None:
            raise ReplogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {str(tp)[:MAX_SHOWN]}")
        return state

    def put(self, tp: TopicPartition, state: PartitionState) -> None:
        """Nothing is recorded of a state that is the present one."""
        if state is not self.get(tp):
            self._changed[tp] = state
            self.records.append(partition_record(tp, self._image.topics[tp.topic].topic_id, state))
