"""One delayed operation: it completes exactly once, through an event or through its deadline (PG-1)."""

from abc import ABC, abstractmethod

from replog.purgatory.timer import TimerEntry


class DelayedOperation(ABC):
    """A request that is answered when something becomes true, `timeout_ms` after it was parked at the latest.

    There is one thread, so "atomic" needs no lock; but completing may re-enter the purgatory (a response may cause
    the next request), which is why `completed` is set before `on_complete` runs.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.completed = False
        self._timer_entry: TimerEntry[DelayedOperation] | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Check the condition; when it holds, return what `force_complete` returns, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Answer the request. Runs exactly once, whether the condition held or the time ran out."""

    def on_expiration(self) -> None:  # noqa: B027 - most operations have nothing to add
        """Called after `on_complete` if the deadline, and not an event, completed the operation (PG-3)."""

    def force_complete(self) -> bool:
        """Complete now unless already completed (PG-2). True for the one call that did it."""
        if self.completed:
            return False
        self.completed = True
        self.stop_timer()
        self.on_complete()
        return True

    def start_timer(self, entry: "TimerEntry[DelayedOperation]") -> None:
        """Remember the deadline's entry, so that completing cancels it."""
        self._timer_entry = entry

    def stop_timer(self) -> None:
        """Cancel the deadline if it runs."""
        if self._timer_entry is not None:
            self._timer_entry.cancel()
            self._timer_entry = None
