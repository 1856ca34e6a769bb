"""One timer for the nearest of several moments that keep changing."""

import asyncio
from collections.abc import Callable

from replog.server.clock import Clock


class DeadlineTimer:
    """Rings once, at the latest when it was asked to. It may ring earlier: then ask again for later moments.

    So a moment that is put off costs nothing. To cancel a timer of the event loop and set it again would take ten
    microseconds. Times are monotonic milliseconds."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0

    def by(self, at_ms: int | None) -> None:
        """Ring by `at_ms`; None changes nothing."""
        if at_ms is None or (self._timer is not None and self._at_ms <= at_ms):
            return
        self.cancel()
        self._at_ms = at_ms
        delay_ms = max(0, at_ms - self._clock.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._now)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()
