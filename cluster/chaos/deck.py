"""Which fault is next: every kind once, in an order that the seed decides, then all over again."""

import random
from collections.abc import Awaitable, Callable, Iterator

from cluster.chaos.world import World

Fault = Callable[[World, random.Random], Awaitable[str]]
"""Hurts, holds on, and says what it did; the run mends."""

FAULTS: dict[str, Fault] = {}
NEED_VOLUMES: set[str] = set()


def fault(name: str, *, needs_volumes: bool = False) -> Callable[[Fault], Fault]:
    """The coroutine is what `name` does."""

    def register(deed: Fault) -> Fault:
        assert name not in FAULTS, name
        FAULTS[name] = deed
        if needs_volumes:
            NEED_VOLUMES.add(name)
        return deed

    return register


def deal(chance: random.Random, with_volumes: bool) -> Iterator[str]:
    names = [name for name in FAULTS if with_volumes or name not in NEED_VOLUMES]
    while True:
        yield from chance.sample(names, len(names))
