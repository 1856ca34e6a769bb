"""Decides if a fetch is answered at once (FE-11), and what ends its wait for data (FE-12 to FE-15)."""

from collections.abc import Iterable
from typing import Protocol

from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.log.fetch import FetchAnswer, FetchPartition, check_leader_epoch, parting
from replog.log.log import Log
from replog.log.offsets import Isolation, OffsetMetadata
from replog.topic import TopicPartition


class Reader(Protocol):
    """A role that serves the fetch: the leader's, or a follower's for a consumer (FE-20)."""

    @property
    def log(self) -> Log: ...

    @property
    def leader_epoch(self) -> int: ...


def is_enough(answers: Iterable[FetchAnswer], min_bytes: int) -> bool:
    """Return True if there are `min_bytes`, an error, or another replica to read from."""
    total = 0
    for answer in answers:
        total += len(answer.records)
        if answer.is_refusal or answer.preferred_read_replica is not None:
            return True
    return total >= min_bytes


class AwaitedBytes:
    """Counts readable bytes for a parked fetch, by partition: an event then costs a look at one partition only."""

    def __init__(self, min_bytes: int) -> None:
        self.min_bytes = min_bytes
        self.total = 0
        self._of: dict[TopicPartition, int] = {}

    def note(self, topic_partition: TopicPartition, available: int | None) -> bool:
        """The partition has `available` bytes, or an answer without data (None). True: answer the fetch now (FE-12)."""
        if available is None:
            return True
        self.total += available - self._of.get(topic_partition, 0)
        self._of[topic_partition] = available
        return self.total >= self.min_bytes  # G


def available_bytes(
    reader: Reader | ErrorCode,
    request: FetchPartition,
    start: OffsetMetadata | None,
    isolation: Isolation,
    *,
    is_throttled: bool = False,
) -> int | None:
    """Return the bytes that a partition adds to a parked fetch (FE-12), or None if it completes the fetch at once.

    `start` is the place of the fetch offset; None: it is unknown, and the partition counts nothing. A throttled
    follower counts nothing, either (FE-23): its answer would be empty, and it would ask again at once. Raises ColdRead
    if the bound must be read from the disk."""
    if isinstance(reader, ErrorCode) or reader.log.failure is not None:
        return None  # A to D: this broker no longer serves it
    log = reader.log
    if check_leader_epoch(request.current_leader_epoch, reader.leader_epoch) is not ErrorCode.NONE:
        return None  # E: a new leader term
    if parting(log, request) is not None:
        return None  # H
    if start is None:
        return 0
    if log.log_end_offset < start.offset:
        return None  # F1: the log was truncated
    if log.limit(isolation) <= start.offset:
        return 0  # F4, before places are compared: an old bound may still name the segment before a roll
    if is_throttled:
        return 0  # even for F2 and F3, which would answer it with nothing
    try:
        bound = log.bound(isolation)
    except LogStorageError:
        return None  # D: its disk has failed, and the answer says so
    if start.segment_base == bound.segment_base:
        return min(bound.position - start.position, request.max_bytes)  # F3
    # F5: the place of the bound, or of the reader, is unknown (LG-1)
    # F2: a segment has rolled, or the reader is far behind; or the log is a copy by now (7.7)
    return 0 if start.message_only or bound.message_only else None
