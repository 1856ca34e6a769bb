"""The clocks of one simulated host."""

from replog.simulator.runtime.loop import SimulatedLoop

WALL_START_MS = 1_750_000_000_000  # the wall clock's time at the start of every simulation


class ProcessClock:
    """A `Clock` that runs `rate` times as fast as time: the monotonic one from `offset_ms` on, the wall clock wrong by
    `skew_ms`."""

    def __init__(self, loop: SimulatedLoop, offset_ms: int = 0, rate: float = 1.0, skew_ms: int = 0) -> None:
        self._loop = loop
        self._offset_ms = offset_ms
        self._rate = rate
        self.skew_ms = skew_ms

    def monotonic_ms(self) -> int:
        return self._offset_ms + int(self._loop.time() * 1000 * self._rate)

    def monotonic_s(self) -> float:
        return self._offset_ms / 1000 + self._loop.time() * self._rate

    def wall_ms(self) -> int:
        return WALL_START_MS + self.skew_ms + int(self._loop.time() * 1000 * self._rate)

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.skew_ms += by_ms
