from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class AreYouRequest(_message.Message):
    __slots__ = ("broker_id", "incarnation_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation_id: bytes
    def __init__(self, broker_id: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ...) -> None: ...

class AreYouResponse(_message.Message):
    __slots__ = ("yes",)
    YES_FIELD_NUMBER: _ClassVar[int]
    yes: bool
    def __init__(self, yes: _Optional[bool] = ...) -> None: ...
