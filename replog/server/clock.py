"""Time, passed in as an argument."""

import time
from typing import Protocol


class Clock(Protocol):
    """Times for durations and for timestamps."""

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, for every timeout and session. Its zero means nothing."""

    def monotonic_s(self) -> float:
        """Return the same time, as exactly as possible, to be shown."""

    def wall_ms(self) -> int:
        """Return the time since 1970-01-01 UTC, for timestamps that people or files see. It may jump."""


class SystemClock:
    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
