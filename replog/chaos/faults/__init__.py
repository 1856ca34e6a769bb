"""The faults of a chaos run, in modules named for what they hurt. They are dealt: every kind once, in an order that the
seed decides, then all again; some with another."""

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from replog.chaos.world import ChaosWorld

TOGETHER_EVERY = 3

Action = Callable[[ChaosWorld, random.Random], Awaitable[str]]
"""Makes a fault, lets it last, and says what it did; the run repairs it."""


@dataclass(frozen=True, slots=True)
class Fault:
    action: Action
    on_a_volume: bool  # only one at a time, otherwise records could be lost that only two disks have
    alone: bool  # no other fault at the same time


FAULTS: dict[str, Fault] = {}


def fault(name: str, *, on_a_volume: bool = False, alone: bool = False) -> Callable[[Action], Action]:
    """Register a coroutine that makes the fault `name`."""

    def register(action: Action) -> Action:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(action, on_a_volume, alone)
        return action

    return register


def deal(rng: random.Random, with_volumes: bool) -> Iterator[tuple[str, ...]]:
    """Yield one fault's name, or two for faults at the same time."""
    names = [name for name, fault in FAULTS.items() if with_volumes or not fault.on_a_volume]
    while True:
        for number, name in enumerate(rng.sample(names, len(names)), 1):
            others = [other for other in names if other != name and _together(FAULTS[name], FAULTS[other])]
            if number % TOGETHER_EVERY == 0 and others:
                yield name, rng.choice(others)
            else:
                yield (name,)


def _together(one: Fault, other: Fault) -> bool:
    return not (one.alone or other.alone or (one.on_a_volume and other.on_a_volume))
