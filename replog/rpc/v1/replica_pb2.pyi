from replog.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicaFetchRequest(_message.Message):
    __slots__ = ("replica_id", "broker_epoch", "max_wait_ms", "min_bytes", "max_bytes", "partitions", "forgotten")
    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicaFetchPartition]
    forgotten: _containers.RepeatedCompositeFieldContainer[_common_pb2.ForgottenPartition]
    def __init__(self, replica_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ReplicaFetchPartition, _Mapping]]] = ..., forgotten: _Optional[_Iterable[_Union[_common_pb2.ForgottenPartition, _Mapping]]] = ...) -> None: ...

class ReplicaFetchPartition(_message.Message):
    __slots__ = ("topic", "partition", "topic_id", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes", "unflushed")
    topic: str
    partition: int
    topic_id: bytes
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    unflushed: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., current_leader_epoch: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., last_fetched_epoch: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., partition_max_bytes: _Optional[int] = ..., unflushed: _Optional[int] = ...) -> None: ...

class ReplicaFetchResponse(_message.Message):
    __slots__ = ("pushed", "partitions", "records")
    pushed: bool
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicaFetchPartitionResult]
    records: bytes
    def __init__(self, pushed: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[ReplicaFetchPartitionResult, _Mapping]]] = ..., records: _Optional[bytes] = ...) -> None: ...

class ReplicaFetchPartitionResult(_message.Message):
    __slots__ = ("topic", "partition", "error_code", "fetch_offset", "leader_epoch", "high_watermark", "log_start_offset", "log_end_offset", "diverging_epoch", "records_size", "topic_id")
    topic: str
    partition: int
    error_code: _common_pb2.ErrorCode
    fetch_offset: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: _common_pb2.EpochEndOffset
    records_size: int
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., fetch_offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., diverging_epoch: _Optional[_Union[_common_pb2.EpochEndOffset, _Mapping]] = ..., records_size: _Optional[int] = ..., topic_id: _Optional[bytes] = ...) -> None: ...
