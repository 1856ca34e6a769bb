"""A purgatory on the event loop: operations complete by events, or by their deadline, without polling."""

import asyncio
from collections.abc import Iterable

from replog.purgatory.operation import DelayedOperation
from replog.purgatory.purgatory import Purgatory
from replog.server.clock import Clock
from replog.topic import TopicPartition


class DelayedOperations:
    """One kind of delayed operation, keyed by partition (PG-14), with a single timer armed for the next deadline."""

    def __init__(self, clock: Clock) -> None:
        self.purgatory: Purgatory[TopicPartition] = Purgatory()
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for_ms = 0

    def complete_or_watch(self, operation: DelayedOperation[TopicPartition], keys: Iterable[TopicPartition]) -> None:
        try:
            self.purgatory.complete_or_watch(operation, keys, self._clock.monotonic_ms())
        finally:
            self._arm()  # also if its check raised: it is watched then

    def check(self, moved: Iterable[TopicPartition]) -> None:
        """Complete what events on these partitions may have satisfied."""
        self.purgatory.check(moved)

    def _arm(self) -> None:
        deadline_ms = self.purgatory.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._armed_for_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        try:
            self.purgatory.expire(self._clock.monotonic_ms())
        finally:
            self._arm()
