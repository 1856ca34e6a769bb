"""The operations of clients and their answers: plain values, in the order in which the operations began.

A run with clients keeps one `History`; `checks.anomalies.find_anomalies` judges it. Times are in seconds, of one
clock for all clients. Every value is sent once, so that it identifies its record; and a topic's name is not used
again after the topic was deleted.

Transactions only write: there are aborted and early reads of them to look for, and no cycles.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import inf

from replog.client.producing.accumulator import DeliveryFailed, RecordMetadata
from replog.client.producing.sender import TOO_LARGE
from replog.errors import ReplogError
from replog.topic import TopicPartition


class Outcome(Enum):
    """What a client knows of its operation (PR-12)."""

    PENDING = "pending"  # no answer, yet or ever: anything may have happened
    OK = "ok"
    FAILED = "failed"  # certainly nothing was done
    UNKNOWN = "unknown"  # an error that leaves it open


@dataclass(slots=True)
class Transaction:
    """Its end is decided before the first marker is written."""

    committed: bool | None = None
    decided_s: float = inf


@dataclass(slots=True, eq=False)
class ProducerSend:
    """One record handed to a producer. `client` is one producer's life; its sends are in the order of its calls."""

    client: str
    partition: TopicPartition
    value: bytes
    acks: int  # -1: all
    idempotent: bool
    invoked_s: float
    key: bytes | None = None  # in compacted topics
    tombstone: bool = False  # `value` is in a header then
    transaction: Transaction | None = None  # it is acknowledged when that is committed, and PENDING for good else
    outcome: Outcome = Outcome.PENDING
    offset: int = -1  # of an OK one; -1: it was not told (acks=0, or a leader that restarted)
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
    """What one call returned, in its order. `client` is one consumer's life."""

    client: str
    records: tuple[Read, ...]
    invoked_s: float
    completed_s: float
    committed: bool = False  # READ_COMMITTED


@dataclass(frozen=True, slots=True)
class Seek:
    """The consumer's next record of `partition` may lie anywhere: it was assigned, moved by the application, or reset
    because its offset was out of range."""

    client: str
    partition: TopicPartition
    at_s: float


@dataclass(frozen=True, slots=True)
class Latest:
    """The end offset (LATEST) that a client was told (FE-22)."""

    client: str
    partition: TopicPartition
    offset: int
    invoked_s: float
    completed_s: float


@dataclass(slots=True)
class Deletion:
    """A DeleteRecords; unless it FAILED, records below `offset` may be gone from `invoked_s` on.

    -1: those below the high watermark of whichever leader did it, each time that one did it (`committed_deleted`).
    """

    client: str
    partition: TopicPartition
    offset: int
    invoked_s: float
    outcome: Outcome = Outcome.PENDING
    low_watermark: int = -1
    completed_s: float | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """The last word on a partition, once nothing fails and nobody sends any longer: every record from the first offset
    there is to the end offset, in order."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    records: tuple[tuple[int, bytes], ...]  # (offset, value)


@dataclass(slots=True)
class History:
    """All that clients did. Append to the lists; an operation is entered when it begins, and completed in place."""

    sends: list[ProducerSend] = field(default_factory=list)
    acknowledgements: list[ProducerSend] = field(default_factory=list)  # the OK ones, in the order of their answers
    answers: list[ProducerSend] = field(default_factory=list)  # of leaders: these, and refusals of what is too large
    reads: list[Poll | Seek] = field(default_factory=list)
    latest: list[Latest] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    drained: dict[TopicPartition, Drained] = field(default_factory=dict)
    drained_committed: dict[TopicPartition, Drained] = field(default_factory=dict)  # where there were transactions
    compacted: dict[str, None] = field(default_factory=dict)  # topics whose old records may vanish by their keys
    transactional: dict[str, None] = field(default_factory=dict)  # topics with transactions, and so with markers
    retained: dict[str, None] = field(default_factory=dict)  # topics with retention: their log start grows by itself
    deleted: dict[str, None] = field(default_factory=dict)  # topics that were deleted, or may have been
    unclean: dict[TopicPartition, None] = field(default_factory=dict)  # an unclean election may have lost records
    passed_over: dict[TopicPartition, int] = field(default_factory=dict)  # a replica began there, and knows no producer
    denials: int = 0  # that a stranger got
    committed_deleted: dict[TopicPartition, int] = field(default_factory=dict)  # how far deletions up to -1 went

    def acknowledged(self, send: ProducerSend, where: RecordMetadata, now_s: float) -> None:
        """Call it in the same step in which the producer's answer came."""
        send.outcome, send.offset, send.completed_s = Outcome.OK, where.offset, now_s
        self.acknowledgements.append(send)
        self.answers.append(send)

    def failed(self, send: ProducerSend, error: ReplogError, now_s: float) -> None:
        """`DeliveryFailed` says what is known; any other error came before the record was in a batch."""
        unknown = isinstance(error, DeliveryFailed) and error.may_be_appended
        send.outcome, send.completed_s = Outcome.UNKNOWN if unknown else Outcome.FAILED, now_s
        send.error = str(error)
        if error.code in TOO_LARGE:
            self.answers.append(send)
