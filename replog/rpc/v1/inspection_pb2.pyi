from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SegmentFile(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG: _ClassVar[SegmentFile]
    OFFSET_INDEX: _ClassVar[SegmentFile]
    TIME_INDEX: _ClassVar[SegmentFile]
    DIGEST_INDEX: _ClassVar[SegmentFile]
    LEADER_EPOCH_CHECKPOINT: _ClassVar[SegmentFile]
LOG: SegmentFile
OFFSET_INDEX: SegmentFile
TIME_INDEX: SegmentFile
DIGEST_INDEX: SegmentFile
LEADER_EPOCH_CHECKPOINT: SegmentFile

class DescribeReplicasRequest(_message.Message):
    __slots__ = ("topic", "digests", "max_bytes", "without_segments")
    topic: str
    digests: bool
    max_bytes: int
    without_segments: bool
    def __init__(self, topic: _Optional[str] = ..., digests: _Optional[bool] = ..., max_bytes: _Optional[int] = ..., without_segments: _Optional[bool] = ...) -> None: ...

class DescribeReplicasResponse(_message.Message):
    __slots__ = ("broker_id", "replicas", "longest_step_us")
    broker_id: int
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaDescription]
    longest_step_us: int
    def __init__(self, broker_id: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[ReplicaDescription, _Mapping]]] = ..., longest_step_us: _Optional[int] = ...) -> None: ...

class ReplicaDescription(_message.Message):
    __slots__ = ("topic", "partition", "is_leader", "leader_epoch", "log_start_offset", "high_watermark", "log_end_offset", "size", "segments", "epochs", "cleaned_to", "topic_id")
    topic: str
    partition: int
    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segments: _containers.RepeatedCompositeFieldContainer[SegmentDescription]
    epochs: _containers.RepeatedCompositeFieldContainer[EpochEntry]
    cleaned_to: int
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., is_leader: _Optional[bool] = ..., leader_epoch: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., size: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[SegmentDescription, _Mapping]]] = ..., epochs: _Optional[_Iterable[_Union[EpochEntry, _Mapping]]] = ..., cleaned_to: _Optional[int] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class SegmentDescription(_message.Message):
    __slots__ = ("base_offset", "size", "digest")
    base_offset: int
    size: int
    digest: int
    def __init__(self, base_offset: _Optional[int] = ..., size: _Optional[int] = ..., digest: _Optional[int] = ...) -> None: ...

class EpochEntry(_message.Message):
    __slots__ = ("epoch", "start_offset")
    epoch: int
    start_offset: int
    def __init__(self, epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class ReadFileRequest(_message.Message):
    __slots__ = ("topic", "partition", "segment_base_offset", "file", "position", "size")
    topic: str
    partition: int
    segment_base_offset: int
    file: SegmentFile
    position: int
    size: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., segment_base_offset: _Optional[int] = ..., file: _Optional[_Union[SegmentFile, str]] = ..., position: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class ReadFileResponse(_message.Message):
    __slots__ = ("position", "file_size", "records")
    position: int
    file_size: int
    records: bytes
    def __init__(self, position: _Optional[int] = ..., file_size: _Optional[int] = ..., records: _Optional[bytes] = ...) -> None: ...

class ReadBatchHeadersRequest(_message.Message):
    __slots__ = ("topic", "partition", "segment_base_offset", "position", "max_headers", "positions")
    topic: str
    partition: int
    segment_base_offset: int
    position: int
    max_headers: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., segment_base_offset: _Optional[int] = ..., position: _Optional[int] = ..., max_headers: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ...) -> None: ...

class ReadBatchHeadersResponse(_message.Message):
    __slots__ = ("records",)
    records: bytes
    def __init__(self, records: _Optional[bytes] = ...) -> None: ...
