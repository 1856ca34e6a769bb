"""The operations of clients and their answers: plain values, in the order in which the operations began.

A simulation keeps one `History`, which `checks.anomalies.find_anomalies` checks. Times are seconds of one clock. Each
value is sent once, so it identifies its record. The name of a deleted topic is not used again. Transactions only
write, so aborted and early reads can occur, but no cycles."""

from dataclasses import dataclass, field
from enum import Enum
from math import inf

from replog.client.producing.deliveries import DeliveryFailed, RecordMetadata
from replog.client.producing.sender import TOO_LARGE
from replog.errors import ReplogError
from replog.topic import TopicPartition


class Outcome(Enum):
    """The outcome of an operation as its client knows it (PR-12)."""

    PENDING = "pending"  # no answer, yet or ever: anything may have happened
    OK = "ok"
    FAILED = "failed"  # certainly nothing was done
    UNKNOWN = "unknown"  # an error that leaves it open


@dataclass(slots=True)
class Transaction:
    """A transaction. Its end is decided before the first marker is written."""

    committed: bool | None = None
    decided_s: float = inf


@dataclass(slots=True, eq=False)
class ProducerSend:
    """One record that was given to a producer. `client` names one producer; its sends are in the order of its calls."""

    client: str
    partition: TopicPartition
    value: bytes
    acks: int  # -1: all
    idempotent: bool
    invoked_s: float
    key: bytes | None = None  # only in compacted topics
    tombstone: bool = False  # True: `value` is in a header
    transaction: Transaction | None = None  # its commit acknowledges the record, which else stays PENDING
    outcome: Outcome = Outcome.PENDING
    offset: int = -1  # set if OK; -1: the answer had none (acks=0, or a leader that restarted)
    completed_s: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """One record that a poll returned."""

    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Poll:
    """The records that one call returned, in their order. `client` names one consumer."""

    client: str
    records: tuple[Read, ...]
    completed_s: float
    committed: bool = False  # READ_COMMITTED


@dataclass(frozen=True, slots=True)
class Seek:
    """A new position of a consumer, anywhere in the log: by assignment, by the application, or by a reset because its
    offset was out of range."""

    client: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Latest:
    """An end offset (LATEST) in an answer to a client (FE-22)."""

    client: str
    partition: TopicPartition
    offset: int
    invoked_s: float
    completed_s: float


@dataclass(slots=True)
class Deletion:
    """A DeleteRecords; unless it FAILED, records below `offset` may be gone.

    Offset -1 means the high watermark of each leader that executes it, maybe more than once (`committed_deleted`)."""

    client: str
    partition: TopicPartition
    offset: int
    outcome: Outcome = Outcome.PENDING
    low_watermark: int = -1


@dataclass(frozen=True, slots=True)
class Drained:
    """All records of a partition in order, from its start offset to its end offset, read once nothing fails and nobody
    sends any longer."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    records: tuple[tuple[int, bytes], ...]  # (offset, value)


@dataclass(slots=True)
class History:
    """All operations of clients. Append an operation when it begins, and complete it in place."""

    sends: list[ProducerSend] = field(default_factory=list)
    acknowledgements: list[ProducerSend] = field(default_factory=list)  # the OK ones, in the order of their answers
    answers: list[ProducerSend] = field(default_factory=list)  # the OK ones, and those that a leader found too large
    reads: list[Poll | Seek] = field(default_factory=list)
    latest: list[Latest] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    drained: dict[TopicPartition, Drained] = field(default_factory=dict)
    drained_committed: dict[TopicPartition, Drained] = field(default_factory=dict)  # transactional topics only
    compacted: dict[str, None] = field(default_factory=dict)  # topics whose old records may vanish by their keys
    transactional: dict[str, None] = field(default_factory=dict)  # topics with transactions, and so with markers
    retained: dict[str, None] = field(default_factory=dict)  # topics with retention: their log start grows by itself
    deleted: dict[str, None] = field(default_factory=dict)  # topics that were deleted, or may have been
    unclean: dict[TopicPartition, None] = field(default_factory=dict)  # an unclean election may have lost records
    passed_over: dict[TopicPartition, int] = field(default_factory=dict)  # a replica began there without producers
    denials: int = 0  # answers to a stranger
    committed_deleted: dict[TopicPartition, int] = field(default_factory=dict)  # how far deletions up to -1 went

    def acknowledged(self, send: ProducerSend, where: RecordMetadata, now_s: float) -> None:
        """Note an OK answer, in the step in which the producer got it."""
        send.outcome, send.offset, send.completed_s = Outcome.OK, where.offset, now_s
        self.acknowledgements.append(send)
        self.answers.append(send)

    def failed(self, send: ProducerSend, error: ReplogError, now_s: float) -> None:
        """Note an error. `DeliveryFailed` says if the record may be appended; other errors came before it was sent."""
        unknown = isinstance(error, DeliveryFailed) and error.may_be_appended
        send.outcome, send.completed_s = Outcome.UNKNOWN if unknown else Outcome.FAILED, now_s
        send.error = str(error)
        if error.code in TOO_LARGE:
            self.answers.append(send)
