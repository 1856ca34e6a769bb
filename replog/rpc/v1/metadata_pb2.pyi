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
RECOVERED: LeaderRecoveryState
RECOVERING: LeaderRecoveryState

class ClusterRecord(_message.Message):
    __slots__ = ("cluster_id",)
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class BrokerRecord(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "incarnation_id", "address", "rack", "fenced", "in_controlled_shutdown")
    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    address: str
    rack: str
    fenced: bool
    in_controlled_shutdown: bool
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., fenced: _Optional[bool] = ..., in_controlled_shutdown: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("topic", "topic_id", "partition", "replicas", "isr", "elr", "leader", "last_known_leader", "leader_epoch", "partition_epoch", "recovery_state", "adding_replicas", "removing_replicas")
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
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., elr: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., last_known_leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., recovery_state: _Optional[_Union[LeaderRecoveryState, str]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ProducerIdsRecord(_message.Message):
    __slots__ = ("next_producer_id",)
    next_producer_id: int
    def __init__(self, next_producer_id: _Optional[int] = ...) -> None: ...

class CollectedRecord(_message.Message):
    __slots__ = ("version",)
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class MetadataRecord(_message.Message):
    __slots__ = ("version", "key", "cluster", "broker", "topic", "partition", "producer_ids", "broker_config", "collected")
    version: int
    key: str
    cluster: ClusterRecord
    broker: BrokerRecord
    topic: TopicRecord
    partition: PartitionRecord
    producer_ids: ProducerIdsRecord
    broker_config: BrokerConfigRecord
    collected: CollectedRecord
    def __init__(self, version: _Optional[int] = ..., key: _Optional[str] = ..., cluster: _Optional[_Union[ClusterRecord, _Mapping]] = ..., broker: _Optional[_Union[BrokerRecord, _Mapping]] = ..., topic: _Optional[_Union[TopicRecord, _Mapping]] = ..., partition: _Optional[_Union[PartitionRecord, _Mapping]] = ..., producer_ids: _Optional[_Union[ProducerIdsRecord, _Mapping]] = ..., broker_config: _Optional[_Union[BrokerConfigRecord, _Mapping]] = ..., collected: _Optional[_Union[CollectedRecord, _Mapping]] = ...) -> None: ...
