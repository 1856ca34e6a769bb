"""Values for offsets and their places, and for the results of appends and reads."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_EPOCH = -1


class OffsetMetadata(NamedTuple):
    """An offset, and its place in the log if that is known, otherwise "message only" (LG-1)."""

    offset: int
    segment_base: int = -1
    position: int = -1

    @property
    def message_only(self) -> bool:
        return self.segment_base < 0


class Isolation(Enum):
    """The bound up to which a reader may see."""

    LOG_END = "log_end"  # followers
    HIGH_WATERMARK = "high_watermark"  # READ_UNCOMMITTED consumers
    TXN_COMMITTED = "txn_committed"  # READ_COMMITTED consumers


class AppendOrigin(Enum):
    """The writer of a batch; a leader checks a producer's sequences accordingly (PS-2)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"  # transaction markers: the producer epoch is checked, sequences are not


class AbortedTransaction(NamedTuple):
    """A producer's data batches from `first_offset` up to its abort marker are void to READ_COMMITTED (LG-9)."""

    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    """A leader epoch and the offset where it ends (EP-6); both -1 when undefined."""

    epoch: int
    end_offset: int


UNDEFINED_EPOCH_END = EpochEndOffset(-1, -1)


class AppendInfo(NamedTuple):
    """The result of an append; first and last offset are -1 when it had nothing to do (LG-2)."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    size: int  # bytes

    @classmethod
    def nothing(cls, log_start_offset: int) -> "AppendInfo":
        return cls(NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP, log_start_offset, 0)


class FetchData(NamedTuple):
    """A read: whole bytes of the log from the start of a batch at or before the offset asked for (SG-5, LG-7)."""

    metadata: OffsetMetadata
    records: Buffer
    first_entry_incomplete: bool = False
    aborted: tuple[AbortedTransaction, ...] = ()  # TXN_COMMITTED only


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """A record's timestamp and offset, and the leader epoch of its batch (SG-7)."""

    timestamp: int
    offset: int
    leader_epoch: int
