"""Turns changes into records, for the wire and the controller's store, and back."""

from collections.abc import Iterable
from enum import Enum
from sys import intern
from typing import Any

from google.protobuf.message import Message

from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, as_connected
from replog.config.processes import AlterableBrokerConfig, ClientQuota
from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import Position
from replog.metadata.changes import KINDS, Change, parse_key
from replog.metadata.image import History
from replog.metadata.values import BrokerRegistration, PartitionState, StandingAudit, Topic
from replog.rpc.codec import same_fields
from replog.rpc.v1 import controller_pb2
from replog.rpc.v1 import metadata_pb2 as pb
from replog.topic import TopicPartition, validate_topic_name

_IDENTITY = ("broker_id", "broker_epoch", "incarnation_id", "address", "rack", "software_version")
_BROKER = (*_IDENTITY, "fenced", "in_controlled_shutdown", "joined")
_AUDIT = ("verdict", "level", "at_ms", "consistent_at_ms", "partitions", "diverged_partitions")


def record_of(change: Change) -> pb.MetadataRecord:
    fields: dict[str, Any] = {} if change.value is None else {change.kind: _record_value(change)}
    return pb.MetadataRecord(version=change.version, key=change.key, **fields)


def _record_value(change: Change) -> Message:
    value = change.value
    match change.kind:
        case "cluster":
            return pb.ClusterRecord(cluster_id=value)
        case "broker":
            return pb.BrokerRecord(**same_fields(value, _BROKER), endpoints=endpoint_messages(value.endpoints))
        case "broker_config":
            return pb.BrokerConfigRecord(broker_id=change.name, configs=value)
        case "topic":
            return pb.TopicRecord(topic=value.name, topic_id=value.topic_id, configs=value.configs)
        case "partition":
            return partition_to_record(change.name, change.topic_id, value)
        case "producer_ids":
            return pb.ProducerIdsRecord(next_producer_id=value)
        case "acl":
            return pb.AccessControlEntryRecord(id=bytes.fromhex(change.name), acl=acl_to_binding(value))
        case "client_quota":
            return pb.ClientQuotaRecord(user=change.name, configs=value)
        case "collected":
            return pb.CollectedRecord(version=value)
        case "lineage":
            return pb.LineageRecord(histories=[pb.HistoryRecord(**history._asdict()) for history in value])
        case "audit":
            return audit_to_record(value)


def change_of(record: pb.MetadataRecord) -> Change:
    """Read a record. One of an unknown kind, or of a topic or partition that cannot be, changes nothing but the version
    of an image. Raises UNSUPPORTED_VERSION for a known kind whose value only a later release can read."""
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
            name, value = record.broker_config.broker_id, AlterableBrokerConfig.tidied(record.broker_config.configs)
        case "topic":
            name = record.topic.topic
            value = Topic(name, record.topic.topic_id, TopicConfig.tidied(record.topic.configs))
        case "partition":
            name = TopicPartition(intern(record.partition.topic), record.partition.partition)  # one for all
            value, topic_id = partition_from_record(record.partition), record.partition.topic_id
        case "producer_ids":
            value = record.producer_ids.next_producer_id
        case "acl":
            name, value = record.acl.id.hex(), acl_of_binding(record.acl.acl)
        case "client_quota":
            name, value = record.client_quota.user, ClientQuota.tidied(record.client_quota.configs)
        case "collected":
            value = record.collected.version
        case "lineage":
            value = tuple(History(history.history_id, history.begins) for history in record.lineage.histories)
        case "audit":
            value = audit_from_record(record.audit)
        case None:
            kind, name = parse_key(record.key)
            if (
                kind in KINDS
                and record.ByteSize() > pb.MetadataRecord(version=record.version, key=record.key).ByteSize()
            ):
                raise _later(record.key)  # otherwise it counts as a deletion
    if isinstance(value, Topic | PartitionState) and not _can_be(name, value, topic_id):
        kind, name, value = record.key, None, None
    return Change(kind, name, value, topic_id, record.version)


def _can_be(name: Any, value: Topic | PartitionState, topic_id: bytes) -> bool:
    """Return False for what no controller makes. Names become paths, ids files, and a first replica is led."""
    if isinstance(value, Topic):
        try:
            topic_id = value.topic_id if validate_topic_name(name) else b""
        except ReplogError:
            return False
    elif name.partition < 0 or not value.replicas:
        return False
    return len(topic_id) == 16 and any(topic_id)


def all_known(record: pb.MetadataRecord) -> Change:
    """Read a record for a caller that must not skip any. Raises UNSUPPORTED_VERSION for one that changes nothing."""
    change = change_of(record)
    if change.kind not in KINDS:
        raise _later(record.key)
    return change


def _later(key: str) -> ReplogError:
    return ErrorCode.UNSUPPORTED_VERSION.error(
        f"the cluster's metadata have {key[:100]!r}, of a later release of replog or damaged; install that one here, "
        "too, or restore a copy"
    )


def published(record: pb.MetadataRecord) -> pb.MetadataRecord:
    """Return the record as everybody may read it, without the incarnation id, which is a broker's password."""
    if not record.broker.incarnation_id:
        return record
    public = pb.MetadataRecord()
    public.CopyFrom(record)
    public.broker.ClearField("incarnation_id")
    return public


def endpoints_from_messages(messages: Iterable[pb.Endpoint]) -> tuple[tuple[str, str], ...]:
    return tuple((message.listener, message.address) for message in messages)


def endpoint_messages(endpoints: Iterable[tuple[str, str]]) -> list[pb.Endpoint]:
    return [pb.Endpoint(listener=listener, address=address) for listener, address in endpoints]


def _broker(record: pb.BrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(**same_fields(record, _BROKER), endpoints=endpoints_from_messages(record.endpoints))


def partition_from_record(record: pb.PartitionRecord) -> PartitionState:
    return PartitionState(  # `same_fields` takes a third more time, and there are very many
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        elr=tuple(record.elr),
        leader=record.leader,
        last_known_leader=record.last_known_leader,
        last_known_elr=tuple(record.last_known_elr),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        recovering=record.recovery_state == pb.RECOVERING,
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        throttle=record.throttle,
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
        last_known_elr=state.last_known_elr,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        recovery_state=pb.RECOVERING if state.recovering else pb.RECOVERED,
        adding_replicas=state.adding,
        removing_replicas=state.removing,
        throttle=state.throttle,
    )


def audit_to_record(audit: StandingAudit) -> pb.AuditRecord:
    verified = (pb.VerifiedPartition(**tp._asdict(), offset=offset) for tp, offset in audit.verified)
    return pb.AuditRecord(**same_fields(audit, _AUDIT, ("diverged",)), verified=verified)


def audit_from_record(record: pb.AuditRecord) -> StandingAudit:
    verified = tuple((TopicPartition(row.topic, row.partition), row.offset) for row in record.verified)
    return StandingAudit(**same_fields(record, _AUDIT, ("diverged",)), verified=verified)


def acl_to_binding(acl: Acl) -> pb.AclBinding:
    return pb.AclBinding(**_fields(acl))


def acl_of_binding(binding: pb.AclBinding) -> Acl:
    """Read an ACL. A word of a later release is kept."""
    return Acl(
        ResourceType(binding.resource_type),
        binding.resource_name,
        PatternType(binding.pattern_type),
        binding.principal,
        binding.host,
        Operation(binding.operation),
        Permission(binding.permission_type),
    )


def acl_filter_to_message(wanted: AclFilter) -> controller_pb2.AclBindingFilter:
    return controller_pb2.AclBindingFilter(**_fields(wanted))


def acl_filter_of(message: controller_pb2.AclBindingFilter) -> AclFilter:
    """Read a filter as `acl_of_binding` does. Raises INVALID_REQUEST if a word is missing: it may not mean ANY."""
    if 0 in (message.resource_type, message.pattern_type, message.operation, message.permission_type):
        raise ErrorCode.INVALID_REQUEST.error("a filter that is not understood: it leaves a word out; say ANY")
    return AclFilter(
        ResourceType(message.resource_type),
        message.resource_name if message.HasField("resource_name") else None,
        PatternType(message.pattern_type),
        message.principal if message.HasField("principal") else None,
        as_connected(message.host) if message.HasField("host") else None,
        Operation(message.operation),
        Permission(message.permission_type),
    )


def _fields(acl: Acl | AclFilter) -> dict[str, Any]:
    values = (word.value if isinstance(word, Enum) else word for word in acl)
    return dict(zip((*Acl._fields[:-1], "permission_type"), values, strict=True))


def position_from_message(message: pb.MetadataPosition) -> Position:
    return Position(message.cluster_id, message.history_id, message.version)


def position_to_message(position: Position) -> pb.MetadataPosition:
    return pb.MetadataPosition(**position._asdict())
