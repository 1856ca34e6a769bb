"""Decisions as records: what is to be committed, and under which versions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cluster.metadata_image import (
    CLUSTER_KEY,
    COLLECTED_KEY,
    PRODUCER_IDS_KEY,
    Change,
    broker_config_key,
    broker_key,
    broker_to_record,
    partition_key,
    partition_to_record,
    topic_key,
)
from replog.metadata import Broker, PartitionState, Topic
from replog.rpc.v1 import metadata_pb2 as pb
from replog.topic import TopicPartition

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """The records to commit in one piece, not yet numbered, and the answer that holds once they are.

    Where there may be thousands they are made one by one as they are taken, None of each partition that stays as it is,
    and nothing else may be decided meanwhile; the answer is whole once all were.
    """

    records: Iterable[pb.MetadataRecord | None]  # a sequence without any: nothing is to be committed
    answer: A


def cluster_record(cluster_id: str) -> pb.MetadataRecord:
    return pb.MetadataRecord(key=CLUSTER_KEY, cluster=pb.ClusterRecord(cluster_id=cluster_id))


def broker_record(broker: Broker) -> pb.MetadataRecord:
    return pb.MetadataRecord(key=broker_key(broker.broker_id), broker=broker_to_record(broker))


def broker_config_record(broker_id: int, configs: Mapping[str, str]) -> pb.MetadataRecord:
    value = pb.BrokerConfigRecord(broker_id=broker_id, configs=configs)
    return pb.MetadataRecord(key=broker_config_key(broker_id), broker_config=value)


def topic_record(topic: Topic) -> pb.MetadataRecord:
    value = pb.TopicRecord(topic=topic.name, topic_id=topic.topic_id, configs=topic.configs)
    return pb.MetadataRecord(key=topic_key(topic.name), topic=value)


def partition_record(tp: TopicPartition, topic_id: bytes, state: PartitionState) -> pb.MetadataRecord:
    return pb.MetadataRecord(key=partition_key(tp), partition=partition_to_record(tp, topic_id, state))


def producer_ids_record(next_producer_id: int) -> pb.MetadataRecord:
    value = pb.ProducerIdsRecord(next_producer_id=next_producer_id)
    return pb.MetadataRecord(key=PRODUCER_IDS_KEY, producer_ids=value)


def collected_record(version: int) -> pb.MetadataRecord:
    return pb.MetadataRecord(key=COLLECTED_KEY, collected=pb.CollectedRecord(version=version))


def tombstone(key: str) -> pb.MetadataRecord:
    return pb.MetadataRecord(key=key)


def numbered(records: Iterable[pb.MetadataRecord | None], after_version: int) -> Iterator[Change | None]:
    """The records with their versions, each one more than the last; None for None."""
    version = after_version
    for record in records:
        if record is None:
            yield None
            continue
        version += 1
        record.version = version
        yield Change.of(record)
