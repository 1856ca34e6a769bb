from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaderRecoveryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERED: _ClassVar[LeaderRecoveryState]
    RECOVERING: _ClassVar[LeaderRecoveryState]

class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOURCE_TYPE_UNKNOWN: _ClassVar[ResourceType]
    RESOURCE_TYPE_ANY: _ClassVar[ResourceType]
    RESOURCE_TYPE_TOPIC: _ClassVar[ResourceType]
    RESOURCE_TYPE_CLUSTER: _ClassVar[ResourceType]

class PatternType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PATTERN_TYPE_UNKNOWN: _ClassVar[PatternType]
    PATTERN_TYPE_ANY: _ClassVar[PatternType]
    PATTERN_TYPE_MATCH: _ClassVar[PatternType]
    PATTERN_TYPE_LITERAL: _ClassVar[PatternType]
    PATTERN_TYPE_PREFIXED: _ClassVar[PatternType]

class AclOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACL_OPERATION_UNKNOWN: _ClassVar[AclOperation]
    ACL_OPERATION_ANY: _ClassVar[AclOperation]
    ACL_OPERATION_ALL: _ClassVar[AclOperation]
    ACL_OPERATION_READ: _ClassVar[AclOperation]
    ACL_OPERATION_WRITE: _ClassVar[AclOperation]
    ACL_OPERATION_CREATE: _ClassVar[AclOperation]
    ACL_OPERATION_DELETE: _ClassVar[AclOperation]
    ACL_OPERATION_ALTER: _ClassVar[AclOperation]
    ACL_OPERATION_DESCRIBE: _ClassVar[AclOperation]
    ACL_OPERATION_CLUSTER_ACTION: _ClassVar[AclOperation]
    ACL_OPERATION_DESCRIBE_CONFIGS: _ClassVar[AclOperation]
    ACL_OPERATION_ALTER_CONFIGS: _ClassVar[AclOperation]
    ACL_OPERATION_IDEMPOTENT_WRITE: _ClassVar[AclOperation]

class AclPermissionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACL_PERMISSION_TYPE_UNKNOWN: _ClassVar[AclPermissionType]
    ACL_PERMISSION_TYPE_ANY: _ClassVar[AclPermissionType]
    ACL_PERMISSION_TYPE_DENY: _ClassVar[AclPermissionType]
    ACL_PERMISSION_TYPE_ALLOW: _ClassVar[AclPermissionType]
RECOVERED: LeaderRecoveryState
RECOVERING: LeaderRecoveryState
RESOURCE_TYPE_UNKNOWN: ResourceType
RESOURCE_TYPE_ANY: ResourceType
RESOURCE_TYPE_TOPIC: ResourceType
RESOURCE_TYPE_CLUSTER: ResourceType
PATTERN_TYPE_UNKNOWN: PatternType
PATTERN_TYPE_ANY: PatternType
PATTERN_TYPE_MATCH: PatternType
PATTERN_TYPE_LITERAL: PatternType
PATTERN_TYPE_PREFIXED: PatternType
ACL_OPERATION_UNKNOWN: AclOperation
ACL_OPERATION_ANY: AclOperation
ACL_OPERATION_ALL: AclOperation
ACL_OPERATION_READ: AclOperation
ACL_OPERATION_WRITE: AclOperation
ACL_OPERATION_CREATE: AclOperation
ACL_OPERATION_DELETE: AclOperation
ACL_OPERATION_ALTER: AclOperation
ACL_OPERATION_DESCRIBE: AclOperation
ACL_OPERATION_CLUSTER_ACTION: AclOperation
ACL_OPERATION_DESCRIBE_CONFIGS: AclOperation
ACL_OPERATION_ALTER_CONFIGS: AclOperation
ACL_OPERATION_IDEMPOTENT_WRITE: AclOperation
ACL_PERMISSION_TYPE_UNKNOWN: AclPermissionType
ACL_PERMISSION_TYPE_ANY: AclPermissionType
ACL_PERMISSION_TYPE_DENY: AclPermissionType
ACL_PERMISSION_TYPE_ALLOW: AclPermissionType

class ClusterRecord(_message.Message):
    __slots__ = ("cluster_id",)
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("listener", "address")
    listener: str
    address: str
    def __init__(self, listener: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class BrokerRecord(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "incarnation_id", "address", "rack", "fenced", "in_controlled_shutdown", "joined", "endpoints", "software_version")
    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    address: str
    rack: str
    fenced: bool
    in_controlled_shutdown: bool
    joined: bool
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    software_version: str
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., fenced: _Optional[bool] = ..., in_controlled_shutdown: _Optional[bool] = ..., joined: _Optional[bool] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., software_version: _Optional[str] = ...) -> None: ...

class TopicRecord(_message.Message):
    __slots__ = ("topic", "topic_id", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    topic: str
    topic_id: bytes
    configs: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BrokerConfigRecord(_message.Message):
    __slots__ = ("broker_id", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    broker_id: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, broker_id: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PartitionRecord(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "replicas", "isr", "elr", "leader", "last_known_leader", "leader_epoch", "partition_epoch", "recovery_state", "adding_replicas", "removing_replicas", "throttle", "last_known_elr")
    topic: str
    topic_id: bytes
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    elr: _containers.RepeatedScalarFieldContainer[int]
    leader: int
    last_known_leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: LeaderRecoveryState
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    throttle: int
    last_known_elr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., elr: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., last_known_leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., recovery_state: _Optional[_Union[LeaderRecoveryState, str]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., throttle: _Optional[int] = ..., last_known_elr: _Optional[_Iterable[int]] = ...) -> None: ...

class AclBinding(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType
    def __init__(self, resource_type: _Optional[_Union[ResourceType, str]] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[_Union[PatternType, str]] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[_Union[AclOperation, str]] = ..., permission_type: _Optional[_Union[AclPermissionType, str]] = ...) -> None: ...

class AccessControlEntryRecord(_message.Message):
    __slots__ = ("id", "acl")
    id: bytes
    acl: AclBinding
    def __init__(self, id: _Optional[bytes] = ..., acl: _Optional[_Union[AclBinding, _Mapping]] = ...) -> None: ...

class ProducerIdsRecord(_message.Message):
    __slots__ = ("next_producer_id",)
    next_producer_id: int
    def __init__(self, next_producer_id: _Optional[int] = ...) -> None: ...

class ClientQuotaRecord(_message.Message):
    __slots__ = ("user", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    user: str
    configs: _containers.ScalarMap[str, str]
    def __init__(self, user: _Optional[str] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CollectedRecord(_message.Message):
    __slots__ = ("version",)
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class LineageRecord(_message.Message):
    __slots__ = ("histories",)
    histories: _containers.RepeatedCompositeFieldContainer[HistoryRecord]
    def __init__(self, histories: _Optional[_Iterable[_Union[HistoryRecord, _Mapping]]] = ...) -> None: ...

class AuditRecord(_message.Message):
    __slots__ = ("verdict", "level", "at_ms", "consistent_at_ms", "verified", "partitions", "diverged", "diverged_partitions")
    verdict: str
    level: str
    at_ms: int
    consistent_at_ms: int
    verified: _containers.RepeatedCompositeFieldContainer[VerifiedPartition]
    partitions: int
    diverged: _containers.RepeatedScalarFieldContainer[str]
    diverged_partitions: int
    def __init__(self, verdict: _Optional[str] = ..., level: _Optional[str] = ..., at_ms: _Optional[int] = ..., consistent_at_ms: _Optional[int] = ..., verified: _Optional[_Iterable[_Union[VerifiedPartition, _Mapping]]] = ..., partitions: _Optional[int] = ..., diverged: _Optional[_Iterable[str]] = ..., diverged_partitions: _Optional[int] = ...) -> None: ...

class VerifiedPartition(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class HistoryRecord(_message.Message):
    __slots__ = ("history_id", "begins")
    history_id: bytes
    begins: int
    def __init__(self, history_id: _Optional[bytes] = ..., begins: _Optional[int] = ...) -> None: ...

class MetadataPosition(_message.Message):
    __slots__ = ("cluster_id", "history_id", "version")
    cluster_id: str
    history_id: bytes
    version: int
    def __init__(self, cluster_id: _Optional[str] = ..., history_id: _Optional[bytes] = ..., version: _Optional[int] = ...) -> None: ...

class MetadataRecord(_message.Message):
    __slots__ = ("version", "key", "cluster", "broker", "topic", "partition", "producer_ids", "broker_config", "collected", "acl", "lineage", "client_quota", "audit")
    version: int
    key: str
    cluster: ClusterRecord
    broker: BrokerRecord
    topic: TopicRecord
    partition: PartitionRecord
    producer_ids: ProducerIdsRecord
    broker_config: BrokerConfigRecord
    collected: CollectedRecord
    acl: AccessControlEntryRecord
    lineage: LineageRecord
    client_quota: ClientQuotaRecord
    audit: AuditRecord
    def __init__(self, version: _Optional[int] = ..., key: _Optional[str] = ..., cluster: _Optional[_Union[ClusterRecord, _Mapping]] = ..., broker: _Optional[_Union[BrokerRecord, _Mapping]] = ..., topic: _Optional[_Union[TopicRecord, _Mapping]] = ..., partition: _Optional[_Union[PartitionRecord, _Mapping]] = ..., producer_ids: _Optional[_Union[ProducerIdsRecord, _Mapping]] = ..., broker_config: _Optional[_Union[BrokerConfigRecord, _Mapping]] = ..., collected: _Optional[_Union[CollectedRecord, _Mapping]] = ..., acl: _Optional[_Union[AccessControlEntryRecord, _Mapping]] = ..., lineage: _Optional[_Union[LineageRecord, _Mapping]] = ..., client_quota: _Optional[_Union[ClientQuotaRecord, _Mapping]] = ..., audit: _Optional[_Union[AuditRecord, _Mapping]] = ...) -> None: ...
