"""Time, passed in as an argument."""

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds, twice: for durations and for timestamps."""

    def monotonic_ms(self) -> int:
        """Never goes back; its zero means nothing. For every timeout and session."""

    def monotonic_s(self) -> float:
        """The same as exactly as there is, for what is only shown."""

    def wall_ms(self) -> int:
        """Since 1970-01-01 UTC; may jump. For timestamps that people or files see."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
