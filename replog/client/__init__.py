"""Clients of the log: producer, consumer and admin, async first."""

from replog.client.admin import Admin, PartitionDescription, TopicDescription
from replog.client.consuming.consumer import Consumer, LogTruncated
from replog.client.leadership import ElectionType
from replog.client.log_dirs import LogDirDescription, ReplicaInfo
from replog.client.producing.producer import Delivery, DeliveryFailed, Producer, RecordMetadata
from replog.client.records import Record
from replog.client.sync import SyncAdmin, SyncConsumer, SyncProducer

__all__ = [
    "Admin",
    "Consumer",
    "Delivery",
    "DeliveryFailed",
    "ElectionType",
    "LogDirDescription",
    "LogTruncated",
    "PartitionDescription",
    "Producer",
    "Record",
    "RecordMetadata",
    "ReplicaInfo",
    "SyncAdmin",
    "SyncConsumer",
    "SyncProducer",
    "TopicDescription",
]
