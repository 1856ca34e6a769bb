"""Changes as records, for the wire and the controller's store; and back."""

from sys import intern
from typing import Any

from google.protobuf.message import Message

from replog.metadata.changes import Change, parse_key
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.rpc.v1 import metadata_pb2 as pb
from replog.topic import TopicPartition


def record_of(change: Change) -> pb.MetadataRecord:
    fields: dict[str, Any] = {} if change.value is None else {change.kind: _record_value(change)}
    return pb.MetadataRecord(version=change.version, key=change.key, **fields)


def _record_value(change: Change) -> Message:
    value = change.value
    match change.kind:
        case "cluster":
            return pb.ClusterRecord(cluster_id=value)
        case "broker":
            return _broker_record(value)
        case "broker_config":
            return pb.BrokerConfigRecord(broker_id=change.name, configs=value)
        case "topic":
            return pb.TopicRecord(topic=value.name, topic_id=value.topic_id, configs=value.configs)
        case "partition":
            return partition_to_record(change.name, change.topic_id, value)
        case "producer_ids":
            return pb.ProducerIdsRecord(next_producer_id=value)
        case "collected":
            return pb.CollectedRecord(version=value)


def change_of(record: pb.MetadataRecord) -> Change:
    name: Any = None
    value: Any = None
    topic_id = b""
    kind: Any = record.WhichOneof("value")
    match kind:
        case "cluster":
            value = record.cluster.cluster_id
        case "broker":
            name, value = record.broker.broker_id, _broker(record.broker)
        case "broker_config":
            name, value = record.broker_config.broker_id, dict(record.broker_config.configs)
        case "topic":
            name = record.topic.topic
            value = Topic(name, record.topic.topic_id, dict(record.topic.configs))
        case "partition":
            name = TopicPartition(intern(record.partition.topic), record.partition.partition)  # one for a topic
            value, topic_id = partition_from_record(record.partition), record.partition.topic_id
        case "producer_ids":
            value = record.producer_ids.next_producer_id
        case "collected":
            value = record.collected.version
        case None:
            kind, name = parse_key(record.key)
    return Change(kind, name, value, topic_id, record.version)


def _broker(record: pb.BrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        address=record.address,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
    )


def _broker_record(broker: BrokerRegistration) -> pb.BrokerRecord:
    return pb.BrokerRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        address=broker.address,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def partition_from_record(record: pb.PartitionRecord) -> PartitionState:
    return PartitionState(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        elr=tuple(record.elr),
        leader=record.leader,
        last_known_leader=record.last_known_leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        recovering=record.recovery_state == pb.RECOVERING,
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
    )


def partition_to_record(tp: TopicPartition, topic_id: bytes, state: PartitionState) -> pb.PartitionRecord:
    return pb.PartitionRecord(
        topic=tp.topic,
        topic_id=topic_id,
        partition=tp.partition,
        replicas=state.replicas,
        isr=state.isr,
        elr=state.elr,
        leader=state.leader,
        last_known_leader=state.last_known_leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        recovery_state=pb.RECOVERING if state.recovering else pb.RECOVERED,
        adding_replicas=state.adding,
        removing_replicas=state.removing,
    )
