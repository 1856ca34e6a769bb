"""Says how long to wait before the next try."""

from random import Random


class Backoff:
    """Waits `base_ms`, doubled with every failure up to `max_ms`, with 20 % of jitter that spreads the waiters out."""

    def __init__(self, random: Random, base_ms: int = 100, max_ms: int = 1000) -> None:
        self._random = random
        self._base_s = base_ms / 1000
        self._max_s = max_ms / 1000
        self._failures = 0

    def delay_s(self, failures: int) -> float:
        """Return the wait after `failures` failures in a row (1 or more)."""
        doubled: float = self._base_s * 2 ** min(failures - 1, 20)
        return min(doubled, self._max_s) * self._random.uniform(0.8, 1.2)

    def next_s(self) -> float:
        """Count one more failure in a row and return the wait after it; `reset` after a success."""
        self._failures += 1
        return self.delay_s(self._failures)

    def reset(self) -> None:
        self._failures = 0
