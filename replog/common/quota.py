"""Replication throttles (KIP-73): the traffic that a broker lets through."""

from collections import deque

MS_PER_SECOND = 1000
MAX_RATES = 100  # a broker counts moves of so many rates at a time


def is_listed(replicas: str, partition: int, broker_id: int) -> bool:
    """Return True if `*`, or a list of partition:broker, names this broker's replica of this partition."""
    return replicas == "*" or f",{partition}:{broker_id}," in f",{replicas},"


class ReplicationQuota:
    """Bytes per second over the last windows of time, the one under way included, and the rate they may reach.

    The time begins with the oldest window that has bytes, and is one window at least; so bytes after a long silence are
    not spread over it. Times are monotonic milliseconds."""

    def __init__(self, rate: int, windows: int, window_ms: int) -> None:
        self.rate = rate  # bytes per second
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[list[int]] = deque()  # [when it began, bytes], oldest first
        self._total = 0

    def record(self, size: int, now_ms: int) -> None:
        if size <= 0:
            return
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size
        self._total += size

    def is_exceeded(self, now_ms: int) -> bool:
        self._forget(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return self._total * MS_PER_SECOND > self.rate * elapsed_ms

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._windows * self._window_ms:
            self._total -= self._samples.popleft()[1]


class Throttles:
    """The quotas for all that a broker sends, or copies: one for listed replicas, and one for all moves of the same
    throttle (divergence 55)."""

    def __init__(self, rate: int, windows: int, window_ms: int) -> None:
        self.listed = ReplicationQuota(rate, windows, window_ms)
        self._windows = windows
        self._window_ms = window_ms
        self._of_moves: dict[int, ReplicationQuota] = {}  # the newest last; kept, so that the next move goes on

    def of_moves(self, rate: int) -> ReplicationQuota:
        """Return the quota for moves of this rate. Beyond `MAX_RATES` the oldest request's starts again."""
        quota = self._of_moves.pop(rate, None) or ReplicationQuota(rate, self._windows, self._window_ms)
        self._of_moves[rate] = quota
        if len(self._of_moves) > MAX_RATES:
            del self._of_moves[next(iter(self._of_moves))]
        return quota

    def exceeded(self, now_ms: int) -> set[ReplicationQuota]:
        return {quota for quota in (self.listed, *self._of_moves.values()) if quota.is_exceeded(now_ms)}
