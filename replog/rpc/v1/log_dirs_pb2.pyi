from replog.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AlterReplicaLogDirsRequest(_message.Message):
    __slots__ = ("replicas",)
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaLogDir]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaLogDir, _Mapping]]] = ...) -> None: ...

class ReplicaLogDir(_message.Message):
    __slots__ = ("topic", "partition", "log_dir")
    topic: str
    partition: int
    log_dir: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., log_dir: _Optional[str] = ...) -> None: ...

class AlterReplicaLogDirsResponse(_message.Message):
    __slots__ = ("replicas",)
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaLogDirResult]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaLogDirResult, _Mapping]]] = ...) -> None: ...

class ReplicaLogDirResult(_message.Message):
    __slots__ = ("topic", "partition", "error_code", "error_message")
    topic: str
    partition: int
    error_code: _common_pb2.ErrorCode
    error_message: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., error_message: _Optional[str] = ...) -> None: ...

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("topics", "max_bytes")
    topics: _containers.RepeatedScalarFieldContainer[str]
    max_bytes: int
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("broker_id", "log_dirs")
    broker_id: int
    log_dirs: _containers.RepeatedCompositeFieldContainer[LogDirDescription]
    def __init__(self, broker_id: _Optional[int] = ..., log_dirs: _Optional[_Iterable[_Union[LogDirDescription, _Mapping]]] = ...) -> None: ...

class LogDirDescription(_message.Message):
    __slots__ = ("log_dir", "error_code", "total_bytes", "usable_bytes", "replicas")
    log_dir: str
    error_code: _common_pb2.ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: _containers.RepeatedCompositeFieldContainer[LogDirReplica]
    def __init__(self, log_dir: _Optional[str] = ..., error_code: _Optional[_Union[_common_pb2.ErrorCode, str]] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[LogDirReplica, _Mapping]]] = ...) -> None: ...

class LogDirReplica(_message.Message):
    __slots__ = ("topic", "partition", "size", "offset_lag", "is_future")
    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., size: _Optional[int] = ..., offset_lag: _Optional[int] = ..., is_future: _Optional[bool] = ...) -> None: ...
