"""Clients of the log: producer, consumer and admin, async first."""

from replog.client.admin import Admin
from replog.client.consuming.consumer import Consumer, DeserializationFailed, LogTruncated, TopicRecreated
from replog.client.descriptions import (
    ElectionType,
    LogDirDescription,
    PartitionDescription,
    ReplicaInfo,
    TopicDescription,
)
from replog.client.producing.producer import Delivery, DeliveryFailed, Producer, RecordMetadata
from replog.client.records import Record
from replog.client.sync import SyncAdmin, SyncConsumer, SyncProducer
from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.errors import DeniedError, ErrorCode, InvalidError, PositionError, ReplogError, RetriableError
from replog.topic import TopicPartition

__all__ = ["Acl", "AclFilter", "Admin", "Consumer", "Delivery", "DeliveryFailed", "DeniedError"]
__all__ += [
    "DeserializationFailed",
    "ElectionType",
    "ErrorCode",
    "InvalidError",
    "LogDirDescription",
    "LogTruncated",
    "Operation",
]
__all__ += ["PartitionDescription", "PatternType", "Permission", "PositionError", "Producer", "Record"]
__all__ += ["RecordMetadata", "ReplicaInfo", "ReplogError", "ResourceType", "RetriableError", "SyncAdmin"]
__all__ += ["SyncConsumer", "SyncProducer", "TopicDescription", "TopicPartition", "TopicRecreated"]
