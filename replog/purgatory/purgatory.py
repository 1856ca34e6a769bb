"""Holds delayed operations under the keys (partitions) whose events may complete them (PG-5, PG-9 to PG-13).

There is one purgatory for each kind of operation (PG-14). It is single-threaded; completing an operation may re-enter
any method here. A completed operation leaves all of its keys and its deadline (divergence 28)."""

from collections.abc import Iterable
from typing import Generic

from replog.purgatory.operation import DelayedOperation, K
from replog.purgatory.timer import Timer, TimerEntry

Waiting = tuple[tuple[K, ...], TimerEntry[DelayedOperation[K]]]
"""The keys of an operation, and its deadline."""


class Purgatory(Generic[K]):
    """Delayed operations watched under keys, each with a deadline. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._watchers: dict[K, dict[DelayedOperation[K], None]] = {}  # none of them empty
        self.waiting: dict[DelayedOperation[K], Waiting[K]] = {}
        self._timer: Timer[DelayedOperation[K]] = Timer()

    @property
    def size(self) -> int:
        """The entries of all lists: an operation on three keys counts three (PG-13)."""
        return sum(map(len, self._watchers.values()))

    @property
    def delayed(self) -> int:
        """The number of operations that still wait (PG-13)."""
        return len(self.waiting)

    def complete_or_watch(self, operation: DelayedOperation[K], keys: Iterable[K], now_ms: int) -> bool:
        """Park the operation under every key until `now_ms` + its timeout. Return True if it completes at once (PG-5).

        It is watched before it is checked, so an event that its check causes is not lost (PG-6)."""
        named = tuple(dict.fromkeys(keys))
        for key in named:
            self._watchers.setdefault(key, {})[operation] = None
        self.waiting[operation] = named, self._timer.add(now_ms + operation.timeout_ms, operation)
        operation.leave = self._forget
        operation.try_complete(named)
        return operation.completed

    def check(self, keys: Iterable[K]) -> int:
        """Check every operation watched under any of these keys, each once, and return how many completed (PG-9).

        One operation's exception does not skip the others; all exceptions are raised together at the end."""
        moved: dict[DelayedOperation[K], list[K]] = {}
        for key in keys:
            for operation in self._watchers.get(key, ()):
                moved.setdefault(operation, []).append(key)
        count = 0
        errors: list[Exception] = []
        for operation, its_keys in moved.items():
            if operation not in self.waiting:  # completing another one has completed it, too
                continue
            try:
                count += operation.try_complete(its_keys)
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        if errors:
            raise ExceptionGroup("delayed operations failed", errors)
        return count

    def expire(self, now_ms: int) -> int:
        """Complete every operation whose deadline has come and return how many (PG-3).

        One operation's exception does not skip the others; all exceptions are raised together at the end."""
        count = 0
        errors: list[Exception] = []
        for operation in self._timer.due(now_ms):
            try:
                if operation.force_complete():
                    count += 1
                    operation.on_expiration()
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        if errors:
            raise ExceptionGroup("expired delayed operations failed", errors)
        return count

    def next_deadline_ms(self) -> int | None:
        """The time when `expire` is next needed, or None while nothing waits."""
        return self._timer.next_deadline_ms()

    def _forget(self, operation: DelayedOperation[K]) -> None:
        operation.leave = None
        keys, deadline = self.waiting.pop(operation)
        deadline.cancel()
        for key in keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
