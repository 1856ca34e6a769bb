"""The partitions that a consumer reads: where each stands, and what keeps it from going on."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from replog.client.metadata import Leader, Metadata
from replog.client.offsets import EARLIEST
from replog.common.backoff import Backoff
from replog.errors import ErrorCode, PositionError, ReplogError
from replog.topic import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class AssignedPartition:
    """One assigned partition. A seek or a new assignment makes a new state, so answers for the old one are dropped."""

    partition: TopicPartition
    position: int | None  # the next record for the application; None until it is known
    reset: int | None  # the ListOffsets timestamp that gives the position
    fetch_offset: int | None = field(init=False)  # the next fetch's: ahead of `position` by what is buffered
    epochs: dict[int, int] = field(default_factory=dict)  # leader epochs of fetched records, and where each begins
    topic_id: bytes = b""  # the topic that the position is in; empty: not known
    error: ReplogError | None = None  # raised by fetch() until a seek
    failures: int = 0  # retriable ones in a row
    failed_source: Leader | None = None  # the broker of the last failure
    retry_at: float = 0.0  # loop time, s
    asked_by: object = None  # the stream that fetches it; never two, even if its leader moves
    asked_of: Leader | None = None  # the broker of the last fetch: the leader, or a follower in its rack
    read_replica: tuple[int, float] | None = None  # the replica that the leader named, until when (loop time, s)
    end: int | None = None  # the offset where readers wait, by the last answer
    leader_only_until: float = 0.0  # a follower has failed: only the leader is read until then (loop time, s)

    def __post_init__(self) -> None:
        self.fetch_offset = self.position


class LogTruncated(PositionError):
    """The log no longer holds what was consumed: it was cut at `diverging_offset`; -1: not known where."""

    def __init__(self, partition: TopicPartition, position: int, diverging_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} was truncated: it diverges at offset {diverging_offset} from what was consumed up to "
            f"{position}; seek to go on",
        )
        self.partition = partition
        self.position = position
        self.diverging_offset = diverging_offset


class TopicRecreated(LogTruncated):
    """The topic was deleted, and another one made under its name."""

    def __init__(self, partition: TopicPartition, position: int) -> None:
        super().__init__(partition, position, 0)
        self.message = (
            f"topic {partition.topic!r} was deleted and made again: what was consumed of {partition} up to {position} "
            "is gone; seek to go on in the new one"
        )


class Subscription:
    def __init__(self, metadata: Metadata, backoff: Backoff, reset: int | None) -> None:
        """`reset` is the ListOffsets timestamp of the reset policy; None: raise an error."""
        self.metadata = metadata
        self.states: dict[TopicPartition, AssignedPartition] = {}
        self.paused: set[TopicPartition] = set()
        self.news = asyncio.Event()  # records, a position or an error
        self._reset = reset
        self._backoff = backoff
        self._failed: list[AssignedPartition] = []
        self._stale = asyncio.Event()  # positions or leaders are missing

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; known ones go on, new ones start by the reset policy."""
        old, self.states = self.states, {}
        partitions = list(partitions)
        self.paused.intersection_update(partitions)
        for partition in partitions:
            self.states[partition] = old.get(partition) or self._new(partition)
        self._changed()

    def _new(self, partition: TopicPartition) -> AssignedPartition:
        state = AssignedPartition(partition, None, self._reset)
        if self._reset is None:
            message = f"{partition} has no position and auto_offset_reset is 'error'; seek"
            self._fail(state, ErrorCode.OFFSET_OUT_OF_RANGE.error(message))
        return state

    def holds(self, state: AssignedPartition) -> bool:
        """Return True unless the application has called seek or assign since."""
        return self.states.get(state.partition) is state

    def replace(self, state: AssignedPartition) -> None:
        self.states[state.partition] = state
        self._changed()

    def _changed(self) -> None:
        self._stale.set()
        self.news.set()

    def go_to(self, partition: TopicPartition, offset: int, topic_id: bytes | None = None) -> None:
        """Go on at `offset` of the topic with this id; by default of the one that was read, or that exists."""
        topic_id = topic_id or self.states[partition].topic_id or self._id_of(partition)
        self.replace(AssignedPartition(partition, offset, None, topic_id=topic_id))

    def go_back(self, partition: TopicPartition, offset: int) -> AssignedPartition:
        """Go back to records that were fetched before. It keeps the epochs: a truncation since is still noticed."""
        state = self.states[partition]
        epochs = {epoch: begins for epoch, begins in state.epochs.items() if begins < offset}
        again = AssignedPartition(partition, offset, None, epochs=epochs, topic_id=state.topic_id)
        self.replace(again)
        return again

    def pause(self, partition: TopicPartition) -> None:
        """Fetch no more of the partition. Its buffered records are dropped, and read again later."""
        self.paused.add(partition)
        if (state := self.states[partition]).position is not None and state.error is None:
            self.go_back(partition, state.position)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)
        self._stale.set()

    def lag(self) -> int:
        """Return by how many offsets the partition furthest behind lags, by each partition's last answer."""
        known = (s.end - s.position for s in self.states.values() if s.end is not None and s.position is not None)
        return max(0, max(known, default=0))

    def _id_of(self, partition: TopicPartition) -> bytes:
        view = self.metadata.view.topics.get(partition.topic)
        return b"" if view is None else view.topic_id

    # -- what keeps a partition from going on

    def _fail(self, state: AssignedPartition, error: ReplogError) -> None:
        state.error = error
        self._failed.append(state)
        self.news.set()

    def _retry_later(self, state: AssignedPartition) -> None:
        loop = asyncio.get_running_loop()
        state.failures += 1
        state.failed_source = state.asked_of or self.metadata.view.leader(state.partition)
        delay_s = self._backoff.delay_s(state.failures)
        state.retry_at = loop.time() + delay_s
        loop.call_later(delay_s, self._stale.set)
        self._stale.set()

    def _truncated(self, state: AssignedPartition, diverging_offset: int) -> None:
        """Go on at the first offset that diverges, as Kafka's consumer does."""
        assert state.fetch_offset is not None
        error, again = LogTruncated(state.partition, state.fetch_offset, diverging_offset), None
        if diverging_offset >= 0:
            offset = min(diverging_offset, state.fetch_offset)
            again = AssignedPartition(state.partition, offset, None, topic_id=state.topic_id)
        self._reset_or_fail(state, error, again)

    def _recreated(self, state: AssignedPartition, topic_id: bytes) -> None:
        """Go on at the start of the new topic, of which nothing was consumed."""
        if state.position != state.fetch_offset:
            self._retry_later(state)  # otherwise records that were read before would be lost
            return
        state.topic_id = topic_id
        error = TopicRecreated(state.partition, state.position or 0)
        self._reset_or_fail(state, error, AssignedPartition(state.partition, None, EARLIEST))

    def _reset_or_fail(
        self, state: AssignedPartition, error: ReplogError, again: AssignedPartition | None = None
    ) -> None:
        """Go on elsewhere, by default as the reset policy says. Without a policy fail."""
        if self._reset is None:
            self._fail(state, error)
            return
        logger.warning("position in %s reset: %s", state.partition, error.message.partition(";")[0])
        self.replace(again or AssignedPartition(state.partition, None, self._reset))
