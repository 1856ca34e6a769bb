"""Clients of the log: producer, consumer and admin, async first."""

from replog.client.admin import Admin
from replog.client.consuming.consumer import Consumer, LogTruncated
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
