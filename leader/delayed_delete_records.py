"""A DeleteRecords request that waits until no live replica keeps the records (FT-23)."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from leader.delayed_produce import LeaderLookup
from replog.errors import ErrorCode
from replog.log.offsets import NO_OFFSET
from replog.purgatory.operation import DelayedOperation
from replog.topic import TopicPartition


class DeleteRecordsResult(NamedTuple):
    """The outcome for one partition; the low watermark is -1 with an error."""

    error: ErrorCode
    low_watermark: int


class DelayedDeleteRecords(DelayedOperation[TopicPartition]):
    """Completes when every partition's low watermark has reached its target; otherwise REQUEST_TIMED_OUT."""

    def __init__(
        self,
        targets: Mapping[TopicPartition, int],
        lookup: LeaderLookup,
        timeout_ms: int,
        respond: Callable[[dict[TopicPartition, DeleteRecordsResult]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._pending = dict(targets)
        self._results = dict.fromkeys(targets, DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, NO_OFFSET))
        self._lookup = lookup
        self._respond = respond

    def try_complete(self, moved: Collection[TopicPartition]) -> bool:
        for topic_partition in self._pending.keys() & moved:
            target = self._pending[topic_partition]
            leader = self._lookup(topic_partition)
            if isinstance(leader, ErrorCode):
                result = DeleteRecordsResult(leader, NO_OFFSET)
            elif (low_watermark := leader.low_watermark()) >= target:
                result = DeleteRecordsResult(ErrorCode.NONE, low_watermark)
            else:
                continue
            self._results[topic_partition] = result
            del self._pending[topic_partition]
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        self._respond(self._results)
