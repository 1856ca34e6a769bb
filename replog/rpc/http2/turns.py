"""A queue in which hosts take turns, so none waits for everything that another one wants."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    def __init__(self) -> None:
        self._of: dict[str, deque[T]] = {}  # the next host first; each host's, the oldest first

    def __bool__(self) -> bool:
        return bool(self._of)

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, host: str, one: T) -> None:
        self._of.setdefault(host, deque()).append(one)

    def oldest(self) -> T:
        """Take the oldest of the host whose turn it is, and put that host behind all others."""
        return self._next().popleft()

    def newest(self) -> T:
        """Take the newest of the host whose turn it is."""
        return self._next().pop()

    def _next(self) -> deque[T]:
        """Return the items of the host whose turn it is. The caller takes one."""
        host = next(iter(self._of))
        waiting = self._of.pop(host)
        if len(waiting) > 1:
            self._of[host] = waiting
        return waiting

    def surplus(self) -> T:
        """Take the oldest of the host that has most."""
        host = max(self._of, key=lambda host: len(self._of[host]))
        one = self._of[host].popleft()
        if not self._of[host]:
            del self._of[host]
        return one
