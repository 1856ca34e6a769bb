"""A fetch that waits for enough data (FE-12 to FE-15)."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchPartition, check_leader_epoch, diverges
from replog.log.log import Log
from replog.log.offsets import Isolation, OffsetMetadata, OffsetSnapshot
from replog.purgatory.operation import DelayedOperation
from replog.topic import TopicPartition


class Reader(Protocol):
    """A role that serves the fetch: the leader's, or a follower's to a consumer (FE-20)."""

    @property
    def log(self) -> Log: ...

    @property
    def leader_epoch(self) -> int: ...


ReaderLookup = Callable[[TopicPartition], Reader | ErrorCode]
"""Who serves a partition on this broker, or why nobody does (1.4)."""


class FetchRow(NamedTuple):
    """One partition of the parked fetch, and where its fetch offset lay when it was first read."""

    topic_partition: TopicPartition
    request: FetchPartition
    metadata: OffsetMetadata | None  # None: ignored


class DelayedFetch(DelayedOperation[TopicPartition]):
    """Completes when `min_bytes` are there over all partitions, or when some partition has other news.

    It answers nothing itself: `respond` reads every partition again, for fresh bounds and fresh errors (FE-13).
    """

    def __init__(
        self,
        rows: Iterable[FetchRow],
        isolation: Isolation,
        min_bytes: int,
        lookup: ReaderLookup,
        timeout_ms: int,
        respond: Callable[[], None],
        is_throttled: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        super().__init__(timeout_ms)
        self._rows = {row.topic_partition: row for row in rows if row.metadata is not None}
        self._bytes: dict[TopicPartition, int] = {}  # to be had of each partition when it was last looked at
        self._total = 0  # of these
        self._isolation = isolation
        self._min_bytes = min_bytes
        self._lookup = lookup
        self._respond = respond
        self._is_throttled = is_throttled  # whether the follower that fetches gets nothing of a partition now (FE-23)

    def try_complete(self, moved: Collection[TopicPartition]) -> bool:
        for topic_partition in moved:
            row = self._rows.get(topic_partition)
            if row is None or row.metadata is None:
                continue
            reader = self._lookup(topic_partition)
            if isinstance(reader, ErrorCode):
                return self.force_complete()  # A to D: nobody serves it here any longer
            try:
                available = self._available(reader, row, row.metadata)
            except ReplogError as error:
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                available = None  # D: its disk has failed, and the answer says so
            if available is None:
                return self.force_complete()
            self._total += available - self._bytes.get(topic_partition, 0)
            self._bytes[topic_partition] = available
        return self._total >= self._min_bytes and self.force_complete()  # G

    def on_complete(self) -> None:
        self._respond()

    def _available(self, reader: Reader, row: FetchRow, start: OffsetMetadata) -> int | None:
        """Bytes that this partition adds (FE-12), or None if it completes the fetch whatever the bytes."""
        request = row.request
        if check_leader_epoch(request.current_leader_epoch, reader.leader_epoch) is not ErrorCode.NONE:
            return None  # E: a new leader term
        if request.last_fetched_epoch is not None:
            end = reader.log.end_offset_for_epoch(request.last_fetched_epoch)
            if end.end_offset < 0 or diverges(end, request.last_fetched_epoch, request.fetch_offset):
                return None  # H
        bound = _bound(reader.log.snapshot(), self._isolation)
        if reader.log.log_end_offset < start.offset:
            return None  # F1: the log was truncated
        if bound.offset <= start.offset:
            return 0  # F4, before the places are compared: an unmoved bound may still name the segment before a roll
        if self._is_throttled(row.topic_partition):
            return 0  # F2 and F3 bring nothing: the answer would be empty, and the follower would ask again at once
        if start.on_older_segment(bound) or bound.on_older_segment(start):
            return None  # F2: a segment has rolled, or the reader is far behind; or the log is a copy by now (7.7)
        if start.on_same_segment(bound):
            return min(bound.position_difference(start), request.max_bytes)  # F3
        return 0  # F5: the place of the bound, or of the reader, is unknown


def _bound(bounds: OffsetSnapshot, isolation: Isolation) -> OffsetMetadata:
    if isolation is Isolation.LOG_END:
        return bounds.log_end_offset
    return bounds.high_watermark if isolation is Isolation.HIGH_WATERMARK else bounds.last_stable_offset
