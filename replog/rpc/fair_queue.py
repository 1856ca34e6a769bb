"""A queue in which peers take turns, so none waits for everything that another one wants.

| | What holds at any time |
|---|---|
| a turn | the peer whose thing was taken is behind all others, or forgotten with its last one |
| a newcomer | is behind all others |
| things of a peer | are in the order in which they were added, each once; any may be removed |
| a crowd | is of the peer that has most, if it has at least two more than the newcomer: it stays as large as his |
"""

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Generic, TypeVar

P = TypeVar("P")
T = TypeVar("T")


class FairQueue(Generic[P, T]):
    def __init__(self) -> None:
        self._of: dict[P, dict[T, None]] = {}  # the peer whose turn it is first; no peer is without things
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._of.values())

    def of(self, peer: P) -> Collection[T]:
        return self._of.get(peer, ())

    def add(self, peer: P, thing: T) -> None:
        things = self._of.setdefault(peer, {})
        self._count += thing not in things
        things[thing] = None

    def remove(self, peer: P, thing: T) -> None:
        things = self._of.get(peer, {})
        if thing in things:
            del things[thing]
            self._count -= 1
            if not things:
                del self._of[peer]

    def take(self, newest: bool = False) -> T:
        """Take the oldest thing of the peer whose turn it is, or its newest."""
        peer = next(iter(self._of))
        things = self._of.pop(peer)
        thing = next(reversed(things) if newest else iter(things))
        del things[thing]
        self._count -= 1
        if things:
            self._of[peer] = things
        return thing

    def take_surplus(self) -> T:
        """Take the oldest thing of the peer that has most."""
        peer = max(self._of, key=lambda peer: len(self._of[peer]))
        thing = next(iter(self._of[peer]))
        self.remove(peer, thing)
        return thing

    def crowd(self, newcomer: P) -> list[T]:
        """Return the things, the oldest first, one of which has to go for a newcomer's; nothing if he has enough."""
        most = max(self._of.values(), key=len, default={})
        return list(most) if len(most) > len(self.of(newcomer)) + 1 else []
