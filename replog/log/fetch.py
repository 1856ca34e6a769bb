"""The request and the answer of a fetch of one partition, as both roles see them (§4, §7)."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.files.cold import ANYTHING, ByteRange, ColdRead, WaitingFor
from replog.log.log import Log
from replog.log.offsets import AbortedTransaction, Buffer, EpochEndOffset, Isolation, OffsetMetadata
from replog.topic import TopicPartition

CONSUMER = -1  # the replica id of a client
ANY_TOPIC = b""  # the id of a fetch that takes any topic of the name (FE-1)


Shared = dict[Hashable, Any]
"""Answers made in one step, in which no log changes: readers that ask for the same get the same object."""


# These are tuples, because one is made for every partition of a fetch: a data class takes three times as long.


class FetchPartition(NamedTuple):
    """One partition of a fetch, by a follower or a consumer."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int | None = None  # None: not fenced (FE-2)
    last_fetched_epoch: int | None = None  # None: not validated (FE-5)
    log_start_offset: int = -1  # the follower's own (ST-7)
    topic_id: bytes = ANY_TOPIC
    unflushed: int = 0  # a follower's last records that its flush setting does not count yet (LG-18)


class FetchAnswer(NamedTuple):
    """The answer for one partition; the offsets are as they were before the read (FE-4), -1 if unknown."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    diverging: EpochEndOffset | None = None
    records: Buffer = b""
    aborted: tuple[AbortedTransaction, ...] = ()  # READ_COMMITTED only (LG-9)
    preferred_read_replica: int | None = None  # the consumer should fetch there; no records then (FE-19)
    place: OffsetMetadata | None = None  # the place of the fetch offset, if it was read; it stays on this broker
    cold: ColdRead | None = None  # set if nothing was read, because this must first be brought from the disk
    why: str = ""  # the error's reason, where its code does not say all

    @property
    def is_refusal(self) -> bool:
        """An error or a divergence: nothing was read."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


class SessionRequest(NamedTuple):
    """One request of a fetch session (divergence 11); sizes in bytes, times in milliseconds."""

    replica_id: int  # CONSUMER, or the broker of the replicas
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    named: Mapping[TopicPartition, FetchPartition]  # added or changed since the last request
    forgotten: Sequence[TopicPartition] = ()
    isolation: Isolation = Isolation.LOG_END
    rack: str | None = None  # a consumer's, which a follower may serve too (FE-20); "": the leader names none (FE-19)


class SessionRow(NamedTuple):
    """One partition of an answer."""

    topic_partition: TopicPartition
    request: FetchPartition  # the request answered (FT-8); from the wire it has offset, epoch and topic id alone
    answer: FetchAnswer


def size_of(rows: Iterable[SessionRow]) -> int:
    """Return the bytes of all records."""
    return sum(len(row.answer.records) for row in rows)


def check_leader_epoch(requested: int | None, local: int) -> ErrorCode:
    """Fence a request by the leader epoch it believes in, before leadership is looked at (FE-2).

    An older one is the caller's mistake (FENCED), a newer one means that this broker is behind (UNKNOWN)."""
    if requested is None or requested == local:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < local else ErrorCode.UNKNOWN_LEADER_EPOCH


def diverges(end: EpochEndOffset, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """Return True if a replica at `fetch_offset` whose last record has `last_fetched_epoch` must truncate (FE-5.3).

    `end` is the leader's end offset for that epoch, and defined."""
    return end.epoch < last_fetched_epoch or end.end_offset < fetch_offset


def parting(log: Log, request: FetchPartition) -> EpochEndOffset | None:
    """Return the end of the reader's last epoch in this log if the reader must truncate (FE-5): undefined if the log
    does not know it. None: the reader agrees, or does not say."""
    epoch, offset = request.last_fetched_epoch, request.fetch_offset
    if epoch is None or (epoch == log.epochs.latest_epoch and offset <= log.log_end_offset):
        return None
    end = log.end_offset_for_epoch(epoch)
    return end if end.end_offset < 0 or diverges(end, epoch, offset) else None


class Reading(NamedTuple):
    """Limits of one read: bytes, the first batch always whole if `min_one`, and where it may wait for the disk."""

    max_bytes: int
    min_one: bool
    wait_for: ByteRange = ANYTHING


def read_log(log: Log, request: FetchPartition, isolation: Isolation, how: Reading) -> FetchAnswer:
    """Validate the epoch and the offset, then read (FE-4 to FE-7). Errors are in the answer, never raised."""
    offset, end = request.fetch_offset, parting(log, request)
    if end is not None and end.end_offset >= 0 and offset >= log.log_start_offset:
        return answer_of(log)._replace(diverging=end)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return _out_of_range(log, offset, f"its log goes from {log.log_start_offset} to {log.log_end_offset}")
    if end is not None:
        return _out_of_range(log, offset, f"its log does not know leader epoch {request.last_fetched_epoch}")
    if offset == log.log_end_offset and log.failure is None:  # nearly always: nothing is read
        return answer_of(log, place=log.bound(Isolation.LOG_END))
    try:
        with WaitingFor(how.wait_for):
            data = log.read(offset, min(request.max_bytes, how.max_bytes), isolation, min_one_message=how.min_one)
    except ColdRead as cold:
        return answer_of(log)._replace(cold=cold)
    except ReplogError as error:
        return answer_of(log, error.code)._replace(why=error.message)
    return FetchAnswer(
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        records=b"" if data.first_entry_incomplete else data.records,  # a piece of a batch is of no use (FE-9)
        aborted=data.aborted,
        place=data.metadata,
    )


def _out_of_range(log: Log, offset: int, what: str) -> FetchAnswer:
    why = f"offset {offset} of {log.directory.name}: {what}; look up its bounds (ListOffsets), and seek"
    return answer_of(log, ErrorCode.OFFSET_OUT_OF_RANGE)._replace(why=why)


def answer_of(log: Log, error: ErrorCode = ErrorCode.NONE, place: OffsetMetadata | None = None) -> FetchAnswer:
    """An answer with the log's offsets as they are now, and without records."""
    high_watermark, last_stable = log.high_watermark, log.last_stable_offset
    return FetchAnswer(error, high_watermark, last_stable, log.log_start_offset, log.log_end_offset, place=place)
