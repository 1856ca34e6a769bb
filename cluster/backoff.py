"""How long to wait before the next try: doubling from a first delay to a bound, with a little jitter."""

import random


class Backoff:
    """`next_s()` gives the delays in seconds; `reset()` after a success."""

    def __init__(self, first_ms: int, bound_ms: int, chance: random.Random) -> None:
        self._first_ms = first_ms
        self._bound_ms = bound_ms
        self._chance = chance
        self._failures = 0

    def next_s(self) -> float:
        delay_ms = min(self._bound_ms, self._first_ms << min(self._failures, 30))
        self._failures += 1
        return delay_ms * self._chance.uniform(0.9, 1.1) / 1000

    def reset(self) -> None:
        self._failures = 0
