"""Where delayed operations wait, found by the keys (partitions) whose events may complete them (PG-5, PG-9 to PG-13).

One purgatory per kind of operation (PG-14). Single-threaded; completing an operation may re-enter any method here.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from replog.purgatory.operation import DelayedOperation
from replog.purgatory.timer import Timer

K = TypeVar("K", bound=Hashable)


class Purgatory(Generic[K]):
    """Delayed operations watched under keys, each with a deadline. Times are monotonic milliseconds."""

    def __init__(self, purge_interval: int = 1000) -> None:
        """`purge_interval`: how many completed operations may linger in other keys' lists (PG-11)."""
        self._watchers: dict[K, list[DelayedOperation]] = {}
        self._timer: Timer[DelayedOperation] = Timer()
        self._purge_interval = purge_interval
        self._estimated_total = 0  # operations in the lists, completed ones included

    @property
    def size(self) -> int:
        """Entries over all lists: an operation on three keys counts three (PG-13)."""
        return sum(map(len, self._watchers.values()))

    @property
    def delayed(self) -> int:
        """Operations that still wait for their deadline (PG-13)."""
        return len(self._timer)

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[K], now_ms: int) -> bool:
        """Complete the operation at once, or park it under every key until `now_ms` + its timeout (PG-5).

        True if it completed here. It is checked again after registration, so that an event which its own first
        check set off is not lost (PG-6).
        """
        if operation.try_complete():
            return True
        for key in dict.fromkeys(keys):
            self._watchers.setdefault(key, []).append(operation)
        self._estimated_total += 1
        operation.start_timer(self._timer.add(now_ms + operation.timeout_ms, operation))
        self._purge_if_needed()
        return operation.try_complete()

    def check_and_complete(self, key: K) -> int:
        """Check every operation watched under `key` and return how many completed (PG-9).

        One operation's exception does not skip the others; all exceptions are raised together at the end.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        count = 0
        errors: list[Exception] = []
        for operation in tuple(watchers):
            if operation.completed:
                continue
            try:
                count += operation.try_complete()
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        self._drop_completed(key)
        if errors:
            raise ExceptionGroup(f"delayed operations of {key} failed", errors)
        return count

    def cancel_for_key(self, key: K) -> list[DelayedOperation]:
        """Take out the operations of a key that disappears, uncompleted and with their timers stopped (PG-12)."""
        operations = [operation for operation in self._watchers.pop(key, ()) if not operation.completed]
        for operation in operations:
            operation.stop_timer()
        return operations

    def expire(self, now_ms: int) -> int:
        """Complete every operation whose deadline has come and return how many (PG-3).

        One operation's exception does not skip the others; all exceptions are raised together at the end.
        """
        count = 0
        errors: list[Exception] = []
        for operation in self._timer.due(now_ms):
            try:
                if operation.force_complete():
                    count += 1
                    operation.on_expiration()
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        self._purge_if_needed()
        if errors:
            raise ExceptionGroup("expired delayed operations failed", errors)
        return count

    def next_deadline_ms(self) -> int | None:
        """When `expire` is next needed, or None while nothing waits."""
        return self._timer.next_deadline_ms()

    def _purge_if_needed(self) -> None:
        """Sweep completed operations out of the lists once too many linger there (PG-10, PG-11)."""
        if self._estimated_total - self.delayed > self._purge_interval:
            self._estimated_total = self.delayed
            for key in tuple(self._watchers):
                self._drop_completed(key)

    def _drop_completed(self, key: K) -> None:
        watchers = self._watchers.get(key)
        if watchers is None:
            return
        watchers[:] = [operation for operation in watchers if not operation.completed]
        if not watchers:
            del self._watchers[key]
