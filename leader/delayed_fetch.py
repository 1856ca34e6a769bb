"""Whether a fetch is answered at once (FE-11), and what ends its wait for enough data (FE-12 to FE-15)."""

from collections.abc import Iterable
from typing import Protocol

from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition, check_leader_epoch, diverges
from replog.log.log import Log
from replog.log.offsets import Isolation, OffsetMetadata, OffsetSnapshot
from replog.topic import TopicPartition


class Reader(Protocol):
    """A role that serves the fetch: the leader's, or a follower's to a consumer (FE-20)."""

    @property
    def log(self) -> Log: ...

    @property
    def leader_epoch(self) -> int: ...


def is_enough(answers: Iterable[FetchAnswer], min_bytes: int) -> bool:
    """Whether there is enough data, or news that is not data."""
    total = 0
    for answer in answers:
        total += len(answer.records)
        if answer.is_refusal or answer.preferred_read_replica is not None:
            return True
    return total >= min_bytes


class AwaitedBytes:
    """What there is to read for a parked fetch, kept by partition, so that an event costs one partition's look."""

    def __init__(self, min_bytes: int) -> None:
        self.min_bytes = min_bytes
        self.total = 0
        self._of: dict[TopicPartition, int] = {}

    def note(self, topic_partition: TopicPartition, available: int | None) -> bool:
        """Of this partition there are so many bytes, or news (None). True: the fetch is to be answered now (FE-12)."""
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
    """Bytes that a partition adds to a parked fetch (FE-12), or None if it completes that whatever the bytes.

    `start` is where the fetch offset lies; None: not known, and the partition counts nothing. A follower that is
    throttled gets nothing now (FE-23): the answer would be empty, and it would ask again at once.
    """
    if isinstance(reader, ErrorCode):
        return None  # A to D: nobody serves it here any longer
    try:
        return _available_bytes(reader, request, start, isolation, is_throttled)
    except ReplogError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return None  # D: its disk has failed, and the answer says so


def _available_bytes(
    reader: Reader, request: FetchPartition, start: OffsetMetadata | None, isolation: Isolation, is_throttled: bool
) -> int | None:
    if check_leader_epoch(request.current_leader_epoch, reader.leader_epoch) is not ErrorCode.NONE:
        return None  # E: a new leader term
    if request.last_fetched_epoch is not None:
        end = reader.log.end_offset_for_epoch(request.last_fetched_epoch)
        if end.end_offset < 0 or diverges(end, request.last_fetched_epoch, request.fetch_offset):
            return None  # H
    if start is None:
        return 0
    bound = _bound(reader.log.snapshot(), isolation)
    if reader.log.log_end_offset < start.offset:
        return None  # F1: the log was truncated
    if bound.offset <= start.offset:
        return 0  # F4, before the places are compared: an unmoved bound may still name the segment before a roll
    if is_throttled:
        return 0  # whatever F2 and F3 would bring
    if start.on_older_segment(bound) or bound.on_older_segment(start):
        return None  # F2: a segment has rolled, or the reader is far behind; or the log is a copy by now (7.7)
    if start.on_same_segment(bound):
        return min(bound.position_difference(start), request.max_bytes)  # F3
    return 0  # F5: the place of the bound, or of the reader, is unknown


def _bound(bounds: OffsetSnapshot, isolation: Isolation) -> OffsetMetadata:
    if isolation is Isolation.LOG_END:
        return bounds.log_end_offset
    return bounds.high_watermark if isolation is Isolation.HIGH_WATERMARK else bounds.last_stable_offset
