"""Says how long to wait before the next try, and how much to ask for then: less when answers do not come in time."""

from random import Random

EASILY = 0.25  # if an answer took less of its time than this, one of twice the size will come in time too


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


class FetchSize:
    """A size in bytes, at most `most`. However small it is, a broker answers with one whole batch (FE-9)."""

    def __init__(self, most: int) -> None:
        self.bytes = most
        self._most = most

    @property
    def is_reduced(self) -> bool:
        return self.bytes < self._most

    def timed_out(self, most: int) -> None:
        """An answer of `most` bytes or less did not come: ask for half, otherwise the next will not come either."""
        self.bytes = max(1, min(self.bytes, most) // 2)

    def answered(self, size: int, elapsed: float, allowed: float) -> None:
        """An answer of `size` bytes took `elapsed` of the time `allowed`. A small one says little of a large one."""
        if size >= self.bytes // 2 and elapsed < allowed * EASILY:
            self.bytes = min(self._most, self.bytes * 2)
