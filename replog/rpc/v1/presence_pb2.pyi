from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class AreYouRequest(_message.Message):
    __slots__ = ("broker_id", "incarnation_id", "nonce")
    broker_id: int
    incarnation_id: bytes
    nonce: bytes
    def __init__(self, broker_id: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class AreYouResponse(_message.Message):
    __slots__ = ("yes", "proof")
    yes: bool
    proof: bytes
    def __init__(self, yes: _Optional[bool] = ..., proof: _Optional[bytes] = ...) -> None: ...
