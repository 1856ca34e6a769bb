"""Delayed operations: requests that wait under keys (partitions) for an event there, or for their deadline.

There is one purgatory for each kind of operation (PG-14). It is single-threaded; completing an operation may re-enter
any method here. A completed operation leaves all of its keys (divergence 28)."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SWEEP_FLOOR = 64  # deadlines of completed operations that are not worth a sweep


class DelayedOperation(ABC, Generic[K]):
    """A request that is answered once (PG-1): when something becomes true, at the latest after `timeout_ms`.

    Completing may re-enter the purgatory, because a response may cause the next request. So `completed` is set before
    `on_complete` runs."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.completed = False
        self.leave: Callable[[DelayedOperation[K]], None] | None = None  # the purgatory sets it

    @abstractmethod
    def try_complete(self, moved: Collection[K]) -> bool:
        """Check the condition. Only these keys can have changed since the last check (at the first: all).

        When it holds, return what `force_complete` returns, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Answer the request. Runs exactly once, whether the condition held or the time ran out."""

    def force_complete(self) -> bool:
        """Complete now unless already completed (PG-2). Return True for the one call that did it."""
        if self.completed:
            return False
        self.completed = True
        if self.leave is not None:
            self.leave(self)
        self.on_complete()
        return True


class Purgatory(Generic[K]):
    """Delayed operations watched under keys, each with a deadline. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._watchers: dict[K, dict[DelayedOperation[K], None]] = {}  # none of them empty
        self.waiting: dict[DelayedOperation[K], tuple[tuple[K, ...], int]] = {}  # keys and deadline
        self._deadlines: list[tuple[int, int, DelayedOperation[K]]] = []  # a heap; some operations are completed
        self._number = count()  # orders equal deadlines

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
        named, deadline_ms = tuple(dict.fromkeys(keys)), now_ms + operation.timeout_ms
        for key in named:
            self._watchers.setdefault(key, {})[operation] = None
        self.waiting[operation] = named, deadline_ms
        heapq.heappush(self._deadlines, (deadline_ms, next(self._number), operation))
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
        completed = 0
        errors: list[Exception] = []
        for operation, its_keys in moved.items():
            if operation not in self.waiting:  # completing another one has completed it, too
                continue
            try:
                completed += operation.try_complete(its_keys)
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        if errors:
            raise ExceptionGroup("delayed operations failed", errors)
        return completed

    def expire(self, now_ms: int) -> int:
        """Complete every operation whose deadline has come, in their order, and return how many (PG-3, PG-17).

        One operation's exception does not skip the others; all exceptions are raised together at the end."""
        completed = 0
        errors: list[Exception] = []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            operation = self._deadlines[0][2]
            try:
                operation.force_complete()
                completed += 1
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
        if errors:
            raise ExceptionGroup("expired delayed operations failed", errors)
        return completed

    def next_deadline_ms(self) -> int | None:
        """The time when `expire` is next needed, or None while nothing waits."""
        while self._deadlines and self._deadlines[0][2].completed:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _forget(self, operation: DelayedOperation[K]) -> None:
        operation.leave = None
        keys, _ = self.waiting.pop(operation)
        for key in keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        if len(self._deadlines) > 2 * len(self.waiting) + _SWEEP_FLOOR:  # nearly all are completed before their time
            self._deadlines = [each for each in self._deadlines if not each[2].completed]
            heapq.heapify(self._deadlines)
