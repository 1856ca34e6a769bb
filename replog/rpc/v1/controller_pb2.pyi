from replog.rpc.v1 import common_pb2 as _common_pb2
from replog.rpc.v1 import metadata_pb2 as _metadata_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ElectionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREFERRED: _ClassVar[ElectionType]
    UNCLEAN: _ClassVar[ElectionType]
PREFERRED: ElectionType
UNCLEAN: ElectionType

class ReportAuditResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeAuditRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeAuditResponse(_message.Message):
    __slots__ = ("audit",)
    audit: _metadata_pb2.AuditRecord
    def __init__(self, audit: _Optional[_Union[_metadata_pb2.AuditRecord, _Mapping]] = ...) -> None: ...

class RegisterBrokerRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "incarnation_id", "address", "rack", "previous_broker_epoch", "known", "previous_incarnation_id", "endpoints", "software_version", "oldest_feature_level", "newest_feature_level", "missing")
    cluster_id: str
    broker_id: int
    incarnation_id: bytes
    address: str
    rack: str
    previous_broker_epoch: int
    known: _metadata_pb2.MetadataPosition
    previous_incarnation_id: bytes
    endpoints: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.Endpoint]
    software_version: str
    oldest_feature_level: int
    newest_feature_level: int
    missing: _containers.RepeatedCompositeFieldContainer[MissingReplicas]
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., previous_broker_epoch: _Optional[int] = ..., known: _Optional[_Union[_metadata_pb2.MetadataPosition, _Mapping]] = ..., previous_incarnation_id: _Optional[bytes] = ..., endpoints: _Optional[_Iterable[_Union[_metadata_pb2.Endpoint, _Mapping]]] = ..., software_version: _Optional[str] = ..., oldest_feature_level: _Optional[int] = ..., newest_feature_level: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[MissingReplicas, _Mapping]]] = ...) -> None: ...

class MissingReplicas(_message.Message):
    __slots__ = ("topic_id", "partitions")
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class RegisterBrokerResponse(_message.Message):
    __slots__ = ("cluster_id", "broker_epoch", "session_timeout_ms")
    cluster_id: str
    broker_epoch: int
    session_timeout_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., broker_epoch: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class UnregisterBrokerRequest(_message.Message):
    __slots__ = ("broker_id",)
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class UnregisterBrokerResponse(_message.Message):
    __slots__ = ("metadata_version",)
    metadata_version: int
    def __init__(self, metadata_version: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "metadata_version", "want_fence", "want_shutdown", "incarnation_id", "known", "offline", "tells_log_ends", "log_ends")
    broker_id: int
    broker_epoch: int
    metadata_version: int
    want_fence: bool
    want_shutdown: bool
    incarnation_id: bytes
    known: _metadata_pb2.MetadataPosition
    offline: _containers.RepeatedCompositeFieldContainer[OfflineReplica]
    tells_log_ends: bool
    log_ends: _containers.RepeatedCompositeFieldContainer[ReplicaLogEnd]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., metadata_version: _Optional[int] = ..., want_fence: _Optional[bool] = ..., want_shutdown: _Optional[bool] = ..., incarnation_id: _Optional[bytes] = ..., known: _Optional[_Union[_metadata_pb2.MetadataPosition, _Mapping]] = ..., offline: _Optional[_Iterable[_Union[OfflineReplica, _Mapping]]] = ..., tells_log_ends: _Optional[bool] = ..., log_ends: _Optional[_Iterable[_Union[ReplicaLogEnd, _Mapping]]] = ...) -> None: ...

class ReplicaLogEnd(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "last_epoch", "end_offset", "is_offline")
    topic_id: bytes
    partition: int
    leader_epoch: int
    last_epoch: int
    end_offset: int
    is_offline: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., last_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ..., is_offline: _Optional[bool] = ...) -> None: ...

class OfflineReplica(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "is_gone")
    topic: str
    topic_id: bytes
    partition: int
    is_gone: bool
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., is_gone: _Optional[bool] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("is_caught_up", "is_fenced", "should_shutdown", "wall_ms")
    is_caught_up: bool
    is_fenced: bool
    should_shutdown: bool
    wall_ms: int
    def __init__(self, is_caught_up: _Optional[bool] = ..., is_fenced: _Optional[bool] = ..., should_shutdown: _Optional[bool] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions", "incarnation_id", "known")
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[AlterPartitionItem]
    incarnation_id: bytes
    known: _metadata_pb2.MetadataPosition
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[AlterPartitionItem, _Mapping]]] = ..., incarnation_id: _Optional[bytes] = ..., known: _Optional[_Union[_metadata_pb2.MetadataPosition, _Mapping]] = ...) -> None: ...

class AlterPartitionItem(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "partition_epoch", "new_isr", "recovery_state")
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: _containers.RepeatedCompositeFieldContainer[IsrMember]
    recovery_state: _metadata_pb2.LeaderRecoveryState
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., new_isr: _Optional[_Iterable[_Union[IsrMember, _Mapping]]] = ..., recovery_state: _Optional[_Union[_metadata_pb2.LeaderRecoveryState, str]] = ...) -> None: ...

class IsrMember(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("partitions", "position")
    partitions: _containers.RepeatedCompositeFieldContainer[AlterPartitionResult]
    position: _metadata_pb2.MetadataPosition
    def __init__(self, partitions: _Optional[_Iterable[_Union[AlterPartitionResult, _Mapping]]] = ..., position: _Optional[_Union[_metadata_pb2.MetadataPosition, _Mapping]] = ...) -> None: ...

class AlterPartitionResult(_message.Message):
    __slots__ = ("topic", "partition", "error_code", "state")
    topic: str
    partition: int
    error_code: _common_pb2.ErrorCode
    state: _metadata_pb2.PartitionRecord
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., state: _Optional[_Union[_metadata_pb2.PartitionRecord, _Mapping]] = ...) -> None: ...

class WatchMetadataRequest(_message.Message):
    __slots__ = ("after_version", "broker_id", "incarnation_id", "known")
    after_version: int
    broker_id: int
    incarnation_id: bytes
    known: _metadata_pb2.MetadataPosition
    def __init__(self, after_version: _Optional[int] = ..., broker_id: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., known: _Optional[_Union[_metadata_pb2.MetadataPosition, _Mapping]] = ...) -> None: ...

class MetadataDelta(_message.Message):
    __slots__ = ("version", "records", "latest_version", "reset")
    version: int
    records: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.MetadataRecord]
    latest_version: int
    reset: bool
    def __init__(self, version: _Optional[int] = ..., records: _Optional[_Iterable[_Union[_metadata_pb2.MetadataRecord, _Mapping]]] = ..., latest_version: _Optional[int] = ..., reset: _Optional[bool] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("topic", "partitions", "replication_factor", "configs", "assignment", "validate_only", "topic_id")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    topic: str
    partitions: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    assignment: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
    validate_only: bool
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ..., assignment: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class ReplicaAssignment(_message.Message):
    __slots__ = ("broker_ids",)
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("topic_id", "partitions", "replication_factor", "metadata_version")
    topic_id: bytes
    partitions: int
    replication_factor: int
    metadata_version: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., metadata_version: _Optional[int] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("topic", "total_count", "assignment", "validate_only")
    topic: str
    total_count: int
    assignment: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
    validate_only: bool
    def __init__(self, topic: _Optional[str] = ..., total_count: _Optional[int] = ..., assignment: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("metadata_version",)
    metadata_version: int
    def __init__(self, metadata_version: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic", "topic_id")
    topic: str
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("metadata_version",)
    metadata_version: int
    def __init__(self, metadata_version: _Optional[int] = ...) -> None: ...

class AlterTopicConfigsRequest(_message.Message):
    __slots__ = ("topic", "set", "delete", "validate_only")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    topic: str
    set: _containers.ScalarMap[str, str]
    delete: _containers.RepeatedScalarFieldContainer[str]
    validate_only: bool
    def __init__(self, topic: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., delete: _Optional[_Iterable[str]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlterBrokerConfigsRequest(_message.Message):
    __slots__ = ("broker_id", "set", "delete", "validate_only")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    broker_id: int
    set: _containers.ScalarMap[str, str]
    delete: _containers.RepeatedScalarFieldContainer[str]
    validate_only: bool
    def __init__(self, broker_id: _Optional[int] = ..., set: _Optional[_Mapping[str, str]] = ..., delete: _Optional[_Iterable[str]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlterClientQuotasRequest(_message.Message):
    __slots__ = ("user", "set", "delete", "validate_only")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    user: str
    set: _containers.ScalarMap[str, str]
    delete: _containers.RepeatedScalarFieldContainer[str]
    validate_only: bool
    def __init__(self, user: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., delete: _Optional[_Iterable[str]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class DescribeClientQuotasRequest(_message.Message):
    __slots__ = ("max_bytes",)
    max_bytes: int
    def __init__(self, max_bytes: _Optional[int] = ...) -> None: ...

class DescribeClientQuotasResponse(_message.Message):
    __slots__ = ("quotas",)
    quotas: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.ClientQuotaRecord]
    def __init__(self, quotas: _Optional[_Iterable[_Union[_metadata_pb2.ClientQuotaRecord, _Mapping]]] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("configs", "metadata_version")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    configs: _containers.ScalarMap[str, str]
    metadata_version: int
    def __init__(self, configs: _Optional[_Mapping[str, str]] = ..., metadata_version: _Optional[int] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("election_type", "all_partitions", "partitions")
    election_type: ElectionType
    all_partitions: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionName]
    def __init__(self, election_type: _Optional[_Union[ElectionType, str]] = ..., all_partitions: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ...) -> None: ...

class PartitionName(_message.Message):
    __slots__ = ("topic", "partition")
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("partitions",)
    partitions: _containers.RepeatedCompositeFieldContainer[ElectLeadersResult]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ElectLeadersResult, _Mapping]]] = ...) -> None: ...

class ElectLeadersResult(_message.Message):
    __slots__ = ("topic", "partition", "error_code", "error_message", "leader")
    topic: str
    partition: int
    error_code: _common_pb2.ErrorCode
    error_message: str
    leader: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., error_message: _Optional[str] = ..., leader: _Optional[int] = ...) -> None: ...

class DescribeLogEndsRequest(_message.Message):
    __slots__ = ("partitions", "max_bytes")
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionName]
    max_bytes: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class DescribeLogEndsResponse(_message.Message):
    __slots__ = ("partitions",)
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionLogEnds]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionLogEnds, _Mapping]]] = ...) -> None: ...

class PartitionLogEnds(_message.Message):
    __slots__ = ("topic", "partition", "replicas", "strategy")
    topic: str
    partition: int
    replicas: _containers.RepeatedCompositeFieldContainer[KnownLogEnd]
    strategy: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[KnownLogEnd, _Mapping]]] = ..., strategy: _Optional[str] = ...) -> None: ...

class KnownLogEnd(_message.Message):
    __slots__ = ("broker_id", "is_live", "is_known", "last_epoch", "end_offset", "had_everything", "is_offline")
    broker_id: int
    is_live: bool
    is_known: bool
    last_epoch: int
    end_offset: int
    had_everything: bool
    is_offline: bool
    def __init__(self, broker_id: _Optional[int] = ..., is_live: _Optional[bool] = ..., is_known: _Optional[bool] = ..., last_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ..., had_everything: _Optional[bool] = ..., is_offline: _Optional[bool] = ...) -> None: ...

class AlterPartitionReassignmentsRequest(_message.Message):
    __slots__ = ("partitions", "throttle")
    partitions: _containers.RepeatedCompositeFieldContainer[ReassignablePartition]
    throttle: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[ReassignablePartition, _Mapping]]] = ..., throttle: _Optional[int] = ...) -> None: ...

class ReassignablePartition(_message.Message):
    __slots__ = ("topic", "partition", "target")
    topic: str
    partition: int
    target: ReplicaAssignment
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., target: _Optional[_Union[ReplicaAssignment, _Mapping]] = ...) -> None: ...

class AlterPartitionReassignmentsResponse(_message.Message):
    __slots__ = ("partitions", "throttle")
    partitions: _containers.RepeatedCompositeFieldContainer[AlterPartitionReassignmentResult]
    throttle: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[AlterPartitionReassignmentResult, _Mapping]]] = ..., throttle: _Optional[int] = ...) -> None: ...

class AlterPartitionReassignmentResult(_message.Message):
    __slots__ = ("topic", "partition", "error_code", "error_message")
    topic: str
    partition: int
    error_code: _common_pb2.ErrorCode
    error_message: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., error_message: _Optional[str] = ...) -> None: ...

class ListPartitionReassignmentsRequest(_message.Message):
    __slots__ = ("partitions", "max_bytes")
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionName]
    max_bytes: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ListPartitionReassignmentsResponse(_message.Message):
    __slots__ = ("partitions",)
    partitions: _containers.RepeatedCompositeFieldContainer[OngoingPartitionReassignment]
    def __init__(self, partitions: _Optional[_Iterable[_Union[OngoingPartitionReassignment, _Mapping]]] = ...) -> None: ...

class OngoingPartitionReassignment(_message.Message):
    __slots__ = ("topic", "partition", "replicas", "adding_replicas", "removing_replicas", "throttle")
    topic: str
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    throttle: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., throttle: _Optional[int] = ...) -> None: ...

class DescribePartitionChangesRequest(_message.Message):
    __slots__ = ("after_version",)
    after_version: int
    def __init__(self, after_version: _Optional[int] = ...) -> None: ...

class DescribePartitionChangesResponse(_message.Message):
    __slots__ = ("kept_since_ms", "changes")
    kept_since_ms: int
    changes: _containers.RepeatedCompositeFieldContainer[PartitionChange]
    def __init__(self, kept_since_ms: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[PartitionChange, _Mapping]]] = ...) -> None: ...

class PartitionChange(_message.Message):
    __slots__ = ("version", "at_ms", "reason", "before", "after")
    version: int
    at_ms: int
    reason: str
    before: _metadata_pb2.PartitionRecord
    after: _metadata_pb2.PartitionRecord
    def __init__(self, version: _Optional[int] = ..., at_ms: _Optional[int] = ..., reason: _Optional[str] = ..., before: _Optional[_Union[_metadata_pb2.PartitionRecord, _Mapping]] = ..., after: _Optional[_Union[_metadata_pb2.PartitionRecord, _Mapping]] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "incarnation_id")
    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("first_producer_id", "count")
    first_producer_id: int
    count: int
    def __init__(self, first_producer_id: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("acls",)
    acls: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.AclBinding]
    def __init__(self, acls: _Optional[_Iterable[_Union[_metadata_pb2.AclBinding, _Mapping]]] = ...) -> None: ...

class CreateAclsResponse(_message.Message):
    __slots__ = ("created", "metadata_version")
    created: int
    metadata_version: int
    def __init__(self, created: _Optional[int] = ..., metadata_version: _Optional[int] = ...) -> None: ...

class AclBindingFilter(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    resource_type: _metadata_pb2.ResourceType
    resource_name: str
    pattern_type: _metadata_pb2.PatternType
    principal: str
    host: str
    operation: _metadata_pb2.AclOperation
    permission_type: _metadata_pb2.AclPermissionType
    def __init__(self, resource_type: _Optional[_Union[_metadata_pb2.ResourceType, str]] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[_Union[_metadata_pb2.PatternType, str]] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[_Union[_metadata_pb2.AclOperation, str]] = ..., permission_type: _Optional[_Union[_metadata_pb2.AclPermissionType, str]] = ...) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("filters",)
    filters: _containers.RepeatedCompositeFieldContainer[AclBindingFilter]
    def __init__(self, filters: _Optional[_Iterable[_Union[AclBindingFilter, _Mapping]]] = ...) -> None: ...

class DeleteAclsResponse(_message.Message):
    __slots__ = ("deleted", "metadata_version")
    deleted: int
    metadata_version: int
    def __init__(self, deleted: _Optional[int] = ..., metadata_version: _Optional[int] = ...) -> None: ...

class DescribeAclsRequest(_message.Message):
    __slots__ = ("filter", "max_bytes")
    filter: AclBindingFilter
    max_bytes: int
    def __init__(self, filter: _Optional[_Union[AclBindingFilter, _Mapping]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class DescribeAclsResponse(_message.Message):
    __slots__ = ("acls",)
    acls: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.AclBinding]
    def __init__(self, acls: _Optional[_Iterable[_Union[_metadata_pb2.AclBinding, _Mapping]]] = ...) -> None: ...
