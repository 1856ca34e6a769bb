"""A replica's copy in another log directory of its broker, until it takes the replica's place (7.7)."""

from follower.partition_follower import NO_PROGRESS, FollowerProgress, PartitionFollower
from replog.errors import ErrorCode
from replog.log.fetch import Reading, read_log
from replog.log.files.cold import ANYTHING, ByteRange
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition


class FutureReplica:
    """A follower of the current log, with the algorithm of section 7. Answers come at once.

    No leader epoch can fence it: it copies this broker's own log, whichever broker leads."""

    def __init__(self, topic_partition: TopicPartition, current: Log, future: Log, *, backoff_ms: int) -> None:
        """Cancel a cleaning of the current log: it would remove what was copied already (CL-5)."""
        current.abort_cleaning()
        self.log = future
        self._current = current
        self._agrees = False  # the last answer was accepted: this log is a prefix of the current one
        self._follower = PartitionFollower(topic_partition, future, backoff_ms=backoff_ms)
        itself = PartitionState(replicas=(), isr=(), leader=0, leader_epoch=0, partition_epoch=0)
        self._follower.become_follower(itself, 0)
        self._truncate_to: int | None = None

    def current_truncated(self, offset: int) -> None:
        """The current log was cut to `offset`: cut this log, too, before anything else is copied."""
        self._truncate_to = offset if self._truncate_to is None else min(self._truncate_to, offset)
        self._agrees = False

    @property
    def caught_up(self) -> bool:
        """True if it has exactly the batches of the current log."""
        return self._agrees and self.log.log_end_offset == self._current.log_end_offset

    @property
    def settled(self) -> bool:
        """True if no truncation of the current log is under way, during which its producers' state is unknown."""
        return self._current.settled

    @property
    def failure(self) -> str | None:
        """The reason why nothing is copied any longer, if so."""
        return self._follower.failure

    def copy(self, max_bytes: int, now_ms: int, wait_for: ByteRange = ANYTHING) -> FollowerProgress:
        """Copy the next batches, `max_bytes` or one. Raises KAFKA_STORAGE_ERROR if the future log's disk fails.

        Raises ColdRead, and nothing has changed, if it would have to wait for the current log's disk. Any other error
        (the current log cannot be read, or is inconsistent) is a note and a delay."""
        self._agrees = False
        if self._truncate_to is not None:
            self.log.truncate_to(self._truncate_to)
            self._truncate_to = None
        if self.log.log_start_offset > self._current.log_start_offset:  # a truncation before a crash lowered it
            self.log.truncate_fully_and_start_at(self._current.log_start_offset)
        self.log.config = self._current.config
        request = self._follower.next_fetch(now_ms, max_bytes)
        if request is None:
            return NO_PROGRESS
        how = Reading(max_bytes, min_one=True, wait_for=wait_for)
        answer = read_log(self._current, request, Isolation.LOG_END, how)
        if answer.cold is not None:
            raise answer.cold
        progress = self._follower.on_answer(request, answer, now_ms)
        self._agrees = answer.error is ErrorCode.NONE and answer.diverging is None and progress.note is None
        return progress
