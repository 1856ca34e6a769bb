"""A purgatory on the event loop: operations complete by events, or at their deadline."""

from collections.abc import Iterable

from replog.purgatory.operation import DelayedOperation
from replog.purgatory.purgatory import Purgatory
from replog.server.clock import Clock
from replog.server.deadline_timer import DeadlineTimer
from replog.topic import TopicPartition


class DelayedOperations:
    """Delayed operations of one kind, keyed by partition (PG-14), with a timer for the next deadline."""

    def __init__(self, clock: Clock) -> None:
        self.purgatory: Purgatory[TopicPartition] = Purgatory()
        self._clock = clock
        self._timer = DeadlineTimer(clock, self._expire)

    def complete_or_watch(self, operation: DelayedOperation[TopicPartition], keys: Iterable[TopicPartition]) -> None:
        try:
            self.purgatory.complete_or_watch(operation, keys, self._clock.monotonic_ms())
        finally:
            self._arm()  # otherwise an operation whose check raised would have no deadline

    def check(self, moved: Iterable[TopicPartition]) -> None:
        """Complete operations that events on these partitions may have satisfied."""
        self.purgatory.check(moved)

    def _arm(self) -> None:
        self._timer.by(self.purgatory.next_deadline_ms())

    def _expire(self) -> None:
        try:
            self.purgatory.expire(self._clock.monotonic_ms())
        finally:
            self._arm()
