"""Requests that wait: a produce for its records to be committed, or flushed (PR-8 to PR-15), and a deletion of records
until no live replica keeps them (FT-23)."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.offsets import NO_OFFSET
from replog.purgatory.purgatory import DelayedOperation
from replog.topic import TopicPartition

LeaderLookup = Callable[[TopicPartition], PartitionLeader | ErrorCode]
"""Returns the leader of a partition on this broker, or the error that says why there is none (1.4)."""


class PendingProduce(NamedTuple):
    """One appended partition of the request: answered when the high watermark reaches `required_offset` (PR-9), or,
    with acks=1, when the leader's flush setting counts what is below it (LG-18)."""

    topic_partition: TopicPartition
    required_offset: int
    leader_epoch: int  # another epoch's leader may have rewritten these offsets (PR-13)
    acks: int = -1


class DelayedProduce(DelayedOperation[TopicPartition]):
    """Completes when no partition is pending; at the deadline those that are answer REQUEST_TIMED_OUT (PR-11).

    Keyed by position in the request, where a partition may appear more than once. Every error answered here is
    indeterminate: the records are in the log and may still be committed (PR-12)."""

    def __init__(
        self,
        pending: Mapping[int, PendingProduce],
        lookup: LeaderLookup,
        timeout_ms: int,
        respond: Callable[[dict[int, ErrorCode]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._pending: dict[TopicPartition, dict[int, PendingProduce]] = {}
        for index, produce in pending.items():
            self._pending.setdefault(produce.topic_partition, {})[index] = produce
        self._results = dict.fromkeys(pending, ErrorCode.REQUEST_TIMED_OUT)
        self._lookup = lookup
        self._respond = respond

    def try_complete(self, moved: Collection[TopicPartition]) -> bool:
        for topic_partition in moved:
            pending = self._pending.get(topic_partition, {})
            for index, produce in tuple(pending.items()):
                result = self._check(produce)
                if result is not None:
                    self._results[index] = result
                    del pending[index]
            if not pending:
                self._pending.pop(topic_partition, None)
        return not self._pending and self.force_complete()

    def could_complete(self) -> bool:
        """Return True if `try_complete` for all partitions would complete it. Changes nothing."""
        return all(self._check(each) is not None for pending in self._pending.values() for each in pending.values())

    def on_complete(self) -> None:
        self._respond(self._results)

    def _check(self, produce: PendingProduce) -> ErrorCode | None:
        """Return the partition's result (the cases of PR-10), or None while it is pending."""
        leader = self._lookup(produce.topic_partition)
        if isinstance(leader, ErrorCode):
            return leader  # A, B
        if leader.leader_epoch != produce.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # PR-13
        if produce.acks == 1:
            return ErrorCode.NONE if leader.log.promised_offset >= produce.required_offset else None
        if leader.log.high_watermark < produce.required_offset:
            return None  # C1
        if len(leader.state.maximal_isr) >= leader.min_insync_replicas:
            return ErrorCode.NONE  # C2
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND  # C3


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
