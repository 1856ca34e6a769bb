"""Whole-call errors: a `ReplogError` travels as google.rpc.Status with an ErrorInfo, and comes back as itself."""

from typing import NamedTuple, cast

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

from replog.errors import ErrorCode, ReplogError, codes
from replog.rpc.v1 import common_pb2

DOMAIN = "replog"

GRPC_CODES = {
    code: grpc_code
    for grpc_code, names in {
        # the request is wrong in every state of the cluster
        code_pb2.INVALID_ARGUMENT: (
            "CORRUPT_MESSAGE MESSAGE_TOO_LARGE INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE INVALID_REQUIRED_ACKS "
            "INVALID_TIMESTAMP INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT "
            "INVALID_CONFIG INVALID_REQUEST INVALID_RECORD"
        ),
        code_pb2.PERMISSION_DENIED: "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED",
        code_pb2.OUT_OF_RANGE: "OFFSET_OUT_OF_RANGE",
        code_pb2.NOT_FOUND: "UNKNOWN_TOPIC_OR_PARTITION LOG_DIR_NOT_FOUND UNKNOWN_TOPIC_ID BROKER_ID_NOT_REGISTERED",
        code_pb2.ALREADY_EXISTS: "TOPIC_ALREADY_EXISTS DUPLICATE_BROKER_REGISTRATION",
        # retry only after something was done about it
        code_pb2.FAILED_PRECONDITION: (
            "OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_TXN_STATE TRANSACTION_COORDINATOR_FENCED "
            "REASSIGNMENT_IN_PROGRESS REPLICA_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE "
            "ELIGIBLE_LEADERS_NOT_AVAILABLE STALE_BROKER_EPOCH ELECTION_NOT_NEEDED SECURITY_DISABLED "
            "NO_REASSIGNMENT_IN_PROGRESS INCONSISTENT_CLUSTER_ID UNSUPPORTED_VERSION INELIGIBLE_REPLICA "
            # only Kafka's clients get these
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH "
            "UNSUPPORTED_COMPRESSION_TYPE FETCH_SESSION_TOPIC_ID_ERROR"
        ),
        # another request, from newer metadata, may succeed
        code_pb2.ABORTED: (
            "NOT_LEADER_OR_FOLLOWER OPERATION_NOT_ATTEMPTED FENCED_LEADER_EPOCH INVALID_UPDATE_VERSION "
            "INCONSISTENT_TOPIC_ID NEW_LEADER_ELECTED"
        ),
        # the same request may succeed, later or elsewhere
        code_pb2.UNAVAILABLE: (
            "LEADER_NOT_AVAILABLE BROKER_NOT_AVAILABLE NETWORK_EXCEPTION NOT_ENOUGH_REPLICAS "
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER STALE_CONTROLLER_EPOCH KAFKA_STORAGE_ERROR "
            "UNKNOWN_PRODUCER_ID UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE"
        ),
        code_pb2.DEADLINE_EXCEEDED: "REQUEST_TIMED_OUT",
        code_pb2.RESOURCE_EXHAUSTED: "THROTTLING_QUOTA_EXCEEDED",
        code_pb2.INTERNAL: "UNKNOWN_SERVER_ERROR",
    }.items()
    for code in codes(names)
}
"""The gRPC code of each error, for clients that know only those; NONE has none."""


def wire_code(code: ErrorCode) -> common_pb2.ErrorCode:
    """Return the same error for a message's `error_code` field."""
    return cast(common_pb2.ErrorCode, int(code))


class CallStatus(NamedTuple):
    """The end of a call, as it travels."""

    code: int  # google.rpc.Code's
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
    """Return the error of a failed call: the server's own if it gave one, else a timeout or a lost connection."""
    message = status.message or "no details"
    try:
        details = tuple(status_pb2.Status.FromString(status.details).details)
    except DecodeError:  # not google.rpc.Status: it says nothing
        details = ()
    for detail in details:
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
