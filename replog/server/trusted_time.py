"""A broker's wall clock beside its controller's: what time may delete, and when a record was appended (CT-28)."""

import structlog

from replog.server.clock import Clock

log = structlog.get_logger()

MOST_APART_MS = 300_000  # two hosts whose clocks are set by anybody agree better


class TrustedTime:
    """Of one broker. The controller says in its answer to a heartbeat what its wall clock shows.

    That was between question and answer. Both are times of the monotonic clock, which never jumps: so a jump of the
    wall clock shows at once, and not with the next heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heard = False
        self._controller: tuple[int, int] | None = None  # how far it is ahead of the monotonic clock, at least, at most
        self._distrust = ""  # as last told

    def heard(self, question_ms: int, controller_ms: int) -> None:
        """The controller has answered a heartbeat of then, monotonic, with the time of its wall clock; 0: it is of
        release 0.1.0, and says none."""
        self._heard = True
        now_ms = self.clock.monotonic_ms()
        self._controller = (controller_ms - now_ms, controller_ms - question_ms) if controller_ms else None
        self.may_delete_ms()

    @property
    def ahead_ms(self) -> int:
        """How far this clock is ahead of the controller's, or behind it, at worst; 0 if it has not said."""
        if self._controller is None:
            return 0
        ahead_ms = self.clock.wall_ms() - self.clock.monotonic_ms()
        return max((ahead_ms - controller_ms for controller_ms in self._controller), key=abs)

    def may_delete_ms(self) -> int | None:
        """The time by which records are old, or None: nothing is deleted by time, since this clock or the controller's
        is wrong, or none was heard since the start."""
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
        """When a record of now is appended: the later of both clocks, if they differ, so that no record is dated back
        and soon deleted; and how far the other one is behind."""
        wall_ms = self.clock.wall_ms()
        if self._controller is None:
            return wall_ms, 0
        controller_ms = now_ms + self._controller[0]
        apart_ms = abs(wall_ms - controller_ms)
        return (wall_ms, 0) if apart_ms <= MOST_APART_MS else (max(wall_ms, controller_ms), apart_ms)
