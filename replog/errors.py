"""Kafka's error names and codes, and the one exception that carries them.

Per-partition answers carry an `ErrorCode`; whole calls fail with a `ReplogError`, which `replog.rpc.status` maps to
and from `google.rpc.Status`. The codes are Kafka's, so that a Kafka user recognises every one."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's protocol error codes (the subset that replog answers with)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    NETWORK_EXCEPTION = 13
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode":
        """A newer peer may send a code that this release does not know."""
        return cls.UNKNOWN_SERVER_ERROR

    def error(self, message: str, instead: str = "") -> "ReplogError":
        """Return the exception to raise, as `ReplogError` describes it."""
        return ReplogError(self, message, instead)


def codes(names: str) -> frozenset[ErrorCode]:
    """Return the codes of these names, which have spaces between them."""
    return frozenset(ErrorCode[name] for name in names.split())


RETRIABLE = codes(
    "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE "
    "NETWORK_EXCEPTION NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER STALE_CONTROLLER_EPOCH "
    "KAFKA_STORAGE_ERROR FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE UNKNOWN_PRODUCER_ID "
    "THROTTLING_QUOTA_EXCEEDED UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID"
)
"""Errors that a client may meet again with fresh metadata and succeed (Kafka's RetriableException)."""


DENIALS = codes("TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED")
"""Errors of a client that is not allowed to do this: every broker answers so."""


class ReplogError(Exception):
    """A refusal. `code` is Kafka's name for it; the message names the thing, the value and the remedy."""

    def __new__(cls, code: ErrorCode, *_: object, **__: object) -> "ReplogError":
        """Give an error that is made without a class of its own that of its code."""
        of_code = (kind for kind in (RetriableError, DeniedError, PositionError) if code in kind.CODES)
        return super().__new__(next(of_code, InvalidError) if cls is ReplogError else cls)

    def __init__(self, code: ErrorCode, message: str, instead: str = "") -> None:
        """`instead` is the address to ask instead, if that is known."""
        super().__init__(message)
        self.instead = instead
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    @property
    def retriable(self) -> bool:
        """True if the same call, made later, may succeed."""
        return self.code in RETRIABLE


class RetriableError(ReplogError):
    """An error that may pass: the same call, made later, may succeed."""

    CODES = RETRIABLE


class DeniedError(ReplogError):
    """An error until an administrator allows the call."""

    CODES = DENIALS


class PositionError(ReplogError):
    """A partition cannot be read further from where the consumer is: seek."""

    CODES = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE})


class InvalidError(ReplogError):
    """An error of the call or of a setting, which must be changed: every other code."""
