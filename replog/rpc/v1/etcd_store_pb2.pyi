from replog.rpc.v1 import metadata_pb2 as _metadata_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoreHead(_message.Message):
    __slots__ = ("format", "version", "first_chunk", "next_chunk", "epoch", "history_id")
    format: int
    version: int
    first_chunk: int
    next_chunk: int
    epoch: int
    history_id: bytes
    def __init__(self, format: _Optional[int] = ..., version: _Optional[int] = ..., first_chunk: _Optional[int] = ..., next_chunk: _Optional[int] = ..., epoch: _Optional[int] = ..., history_id: _Optional[bytes] = ...) -> None: ...

class StoreChunk(_message.Message):
    __slots__ = ("records", "forgotten", "forgotten_up_to")
    records: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.MetadataRecord]
    forgotten: _containers.RepeatedScalarFieldContainer[str]
    forgotten_up_to: int
    def __init__(self, records: _Optional[_Iterable[_Union[_metadata_pb2.MetadataRecord, _Mapping]]] = ..., forgotten: _Optional[_Iterable[str]] = ..., forgotten_up_to: _Optional[int] = ...) -> None: ...
