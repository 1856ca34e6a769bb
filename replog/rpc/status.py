"""Whole-call errors: a `ReplogError` travels as google.rpc.Status with an ErrorInfo, and comes back as itself."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import common_pb2

DOMAIN = "replog"

GRPC_CODES = {
    code: grpc_code
    for grpc_code, codes in {
        code_pb2.INVALID_ARGUMENT: (  # whatever the state of the cluster
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.RECORD_LIST_TOO_LARGE,
            ErrorCode.INVALID_REQUIRED_ACKS,
            ErrorCode.INVALID_TIMESTAMP,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_RECORD,
        ),
        code_pb2.PERMISSION_DENIED: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        code_pb2.OUT_OF_RANGE: (ErrorCode.OFFSET_OUT_OF_RANGE,),
        code_pb2.NOT_FOUND: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LOG_DIR_NOT_FOUND,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        code_pb2.ALREADY_EXISTS: (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        code_pb2.FAILED_PRECONDITION: (  # again only when something has been done about it
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.SECURITY_DISABLED,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.INELIGIBLE_REPLICA,
        ),
        code_pb2.ABORTED: (  # another request, from newer metadata, may succeed
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.INCONSISTENT_TOPIC_ID,
            ErrorCode.NEW_LEADER_ELECTED,
        ),
        code_pb2.UNAVAILABLE: (  # the same request may succeed, later or elsewhere
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.BROKER_NOT_AVAILABLE,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.STALE_CONTROLLER_EPOCH,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.OFFSET_NOT_AVAILABLE,
        ),
        code_pb2.DEADLINE_EXCEEDED: (ErrorCode.REQUEST_TIMED_OUT,),
        code_pb2.RESOURCE_EXHAUSTED: (ErrorCode.THROTTLING_QUOTA_EXCEEDED,),
        code_pb2.INTERNAL: (ErrorCode.UNKNOWN_SERVER_ERROR,),
    }.items()
    for code in codes
}
"""How a call ends with each error, for clients that know gRPC's codes only; NONE ends none."""


def wire_code(code: ErrorCode) -> common_pb2.ErrorCode:
    """The same error in a message's `error_code` field."""
    return cast(common_pb2.ErrorCode, int(code))


class CallStatus(NamedTuple):
    """How a call ended, as it travels."""

    code: int  # of google.rpc.Code
    message: str
    details: bytes  # a google.rpc.Status, the value of `grpc-status-details-bin`; empty if the server sent none


MAX_MESSAGE = 3000  # bytes of an error's text, which travels twice: some clients take 8 KiB of trailers in all
INSTEAD_KEY = "instead"
DETAILS_KEY = "grpc-status-details-bin"


def to_status(error: ReplogError) -> CallStatus:
    detail = Any()
    metadata = {INSTEAD_KEY: error.instead} if error.instead else {}
    detail.Pack(error_details_pb2.ErrorInfo(reason=error.code.name, domain=DOMAIN, metadata=metadata))
    code = GRPC_CODES[error.code]
    message = error.message
    if len(message.encode()) > MAX_MESSAGE:
        message = message.encode()[:MAX_MESSAGE].decode(errors="ignore") + "..."
    status = status_pb2.Status(code=code, message=message, details=[detail])
    return CallStatus(code, message, status.SerializeToString())


def from_status(status: CallStatus, address: str) -> ReplogError:
    """What a failed call means: the server's own error where it gave one, else a timeout or a lost connection."""
    message = status.message or "no details"
    for detail in _details(status.details):
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in ErrorCode.__members__:
            return ReplogError(ErrorCode[info.reason], message, info.metadata.get(INSTEAD_KEY, ""))
    if status.code == code_pb2.DEADLINE_EXCEEDED:
        return ErrorCode.REQUEST_TIMED_OUT.error(f"{address} did not answer in time")
    if status.code in (code_pb2.UNAVAILABLE, code_pb2.CANCELLED):
        return ErrorCode.NETWORK_EXCEPTION.error(f"{address} cannot be reached: {message}")
    if status.code == code_pb2.UNIMPLEMENTED:
        return ErrorCode.INVALID_REQUEST.error(
            f"{address} is the wrong server, such as a controller where a broker is wanted, or an older release "
            f"(UNIMPLEMENTED: {message})"
        )
    name = code_pb2.Code.Name(status.code) if status.code in code_pb2.Code.values() else f"code {status.code}"
    return ErrorCode.UNKNOWN_SERVER_ERROR.error(f"{address}: {name}: {message}")


def _details(encoded: bytes) -> Sequence[Any]:
    try:
        return tuple(status_pb2.Status.FromString(encoded).details)
    except DecodeError:  # not google.rpc.Status: it says nothing
        return ()
