"""Whole-call errors: a `ReplogError` travels as google.rpc.Status with an ErrorInfo, and comes back as itself."""

from typing import cast

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import common_pb2

DOMAIN = "replog"

_GRPC_CODES = {
    ErrorCode.INVALID_REQUEST: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_TOPIC_EXCEPTION: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_PARTITIONS: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_REPLICATION_FACTOR: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_CONFIG: code_pb2.INVALID_ARGUMENT,
    ErrorCode.INVALID_REQUIRED_ACKS: code_pb2.INVALID_ARGUMENT,
    ErrorCode.TOPIC_ALREADY_EXISTS: code_pb2.ALREADY_EXISTS,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: code_pb2.ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: code_pb2.NOT_FOUND,
    ErrorCode.BROKER_ID_NOT_REGISTERED: code_pb2.NOT_FOUND,
    ErrorCode.OFFSET_OUT_OF_RANGE: code_pb2.OUT_OF_RANGE,
    ErrorCode.STALE_BROKER_EPOCH: code_pb2.FAILED_PRECONDITION,
    ErrorCode.INCONSISTENT_CLUSTER_ID: code_pb2.FAILED_PRECONDITION,
    ErrorCode.BROKER_NOT_AVAILABLE: code_pb2.UNAVAILABLE,
    ErrorCode.NOT_CONTROLLER: code_pb2.UNAVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: code_pb2.DEADLINE_EXCEEDED,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: code_pb2.RESOURCE_EXHAUSTED,
    ErrorCode.UNKNOWN_SERVER_ERROR: code_pb2.INTERNAL,
}


def wire_code(code: ErrorCode) -> common_pb2.ErrorCode:
    """The same error in a message's `error_code` field."""
    return cast(common_pb2.ErrorCode, int(code))


def to_status(error: ReplogError) -> grpc.Status:
    detail = Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=error.code.name, domain=DOMAIN))
    code = _GRPC_CODES.get(error.code, code_pb2.UNKNOWN)
    status: grpc.Status = rpc_status.to_status(status_pb2.Status(code=code, message=error.message, details=[detail]))
    return status


def from_rpc_error(error: grpc.RpcError, address: str) -> ReplogError:
    """What a failed call means: the server's own error where it gave one, else a timeout or a lost connection."""
    code, details = error.code(), error.details() or "no details"
    status = rpc_status.from_call(error) if hasattr(error, "trailing_metadata") else None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in ErrorCode.__members__:
            return ReplogError(ErrorCode[info.reason], details)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ReplogError(ErrorCode.REQUEST_TIMED_OUT, f"{address} did not answer in time")
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{address} cannot be reached: {details}")
    return ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{address}: {code.name}: {details}")
