"""Bounds what costs a peer little and brings nothing: rapid resets, floods of PING, SETTINGS, empty DATA."""

from replog.rpc.http2.bounds import Rate
from replog.rpc.http2.frames import ENHANCE_YOUR_CALM, ConnectionFailure


class Meter:
    """Counts one kind of event; what it forgives is worked out only when there seem to be too many."""

    def __init__(self, what: str, rate: Rate) -> None:
        self._what = what
        self._rate = rate
        self._count = 0
        self._since_ms: int | None = None

    def count(self, now_ms: int) -> None:
        """Count one event. Raises ConnectionFailure(ENHANCE_YOUR_CALM) when there are too many."""
        self._count += 1
        if self._since_ms is None:
            self._since_ms = now_ms
        if self._count > self._rate.burst:
            forgiven = (now_ms - self._since_ms) * self._rate.per_second // 1000
            if forgiven:
                self._count = max(1, self._count - forgiven)
                self._since_ms = now_ms
            if self._count > self._rate.burst:
                raise ConnectionFailure(
                    ENHANCE_YOUR_CALM,
                    f"too many {self._what}: {self._rate.burst} at once and {self._rate.per_second} a second are taken",
                )
