"""Time, passed in as an argument; a timer for the nearest of several moments; a broker's trust in its wall clock."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger()

MOST_APART_MS = 300_000  # clocks that are set at all agree better


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


class TrustedTime:
    """A broker's trust in its wall clock, before it deletes or dates records (CT-28). The controller's answer to a
    heartbeat has the time of its own.

    It is kept relative to the monotonic clock, which never jumps. So a jump of the wall clock is noticed at once, and
    not only with the next heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heard = False
        self._controller: tuple[int, int] | None = None  # least and most that it is ahead of the monotonic clock
        self._distrust = ""  # the reason logged last

    def heard(self, question_ms: int, controller_ms: int) -> None:
        """Take in the controller's wall clock, from its answer to a heartbeat that was sent at `question_ms`,
        monotonic. 0: a controller of release 0.1.0 does not say."""
        self._heard = True
        now_ms = self.clock.monotonic_ms()
        self._controller = (controller_ms - now_ms, controller_ms - question_ms) if controller_ms else None
        self.may_delete_ms()

    @property
    def ahead_ms(self) -> int:
        """The most that this clock is ahead of the controller's, or behind it (negative); 0 if that has not said."""
        if self._controller is None:
            return 0
        ahead_ms = self.clock.wall_ms() - self.clock.monotonic_ms()
        return max((ahead_ms - controller_ms for controller_ms in self._controller), key=abs)

    def may_delete_ms(self) -> int | None:
        """Return the time by which records are old. None: nothing is deleted by time, because this clock or the
        controller's is wrong, or no controller was heard since the start."""
        ahead_ms = self.ahead_ms
        if abs(ahead_ms) > MOST_APART_MS:
            distrust = "this broker's clock and the controller's differ"
        else:
            distrust = "" if self._heard else "no controller was heard since the start"
        if distrust and distrust != self._distrust:
            log.warning(
                f"{distrust}: nothing is deleted by time", ahead_s=ahead_ms / 1000, remedy="look at both clocks"
            )
        elif self._distrust and not distrust:
            log.info("this broker's clock is right again: time deletes", ahead_s=ahead_ms / 1000)
        self._distrust = distrust
        return None if distrust else self.clock.wall_ms()

    def of_append(self, now_ms: int) -> tuple[int, int]:
        """Return the time of an append, and how far the clocks differ if that is too much. Then it is the later of
        both: a record that is dated back would soon be deleted."""
        wall_ms = self.clock.wall_ms()
        if self._controller is None:
            return wall_ms, 0
        controller_ms = now_ms + self._controller[0]
        apart_ms = abs(wall_ms - controller_ms)
        return (wall_ms, 0) if apart_ms <= MOST_APART_MS else (max(wall_ms, controller_ms), apart_ms)
