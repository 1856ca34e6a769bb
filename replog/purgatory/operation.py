"""One delayed operation: it completes exactly once, through an event or through its deadline (PG-1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class DelayedOperation(ABC, Generic[K]):
    """A request that is answered when something becomes true, at the latest `timeout_ms` after it was parked.

    There is one thread, so no lock is needed. Completing may re-enter the purgatory, because a response may cause the
    next request. So `completed` is set before `on_complete` runs."""

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

    def on_expiration(self) -> None:
        """Called after `on_complete` if the deadline, and not an event, completed the operation (PG-3)."""

    def force_complete(self) -> bool:
        """Complete now unless already completed (PG-2). Return True for the one call that did it."""
        if self.completed:
            return False
        self.completed = True
        if self.leave is not None:
            self.leave(self)
        self.on_complete()
        return True
