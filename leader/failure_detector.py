"""Notes which brokers are heard: a leader may be deposed (divergence 29), or should step down (divergence 32)."""

from collections.abc import Collection, Iterable

SIGNS_OF_LIFE_MS = 3000  # the controller speaks every second, so even a shorter session waits this long for it
CONTROLLER_HEARD_MS = 1500  # a controller that was silent for longer may be gone
LISTENING_MS = 250  # the pause between two looks: two seconds of silence are noticed soon
LATE_MS = 2 * LISTENING_MS  # a later look means that this broker was slow for five times the time that a step may take


class FailureDetector:
    """The times when the controller and each other broker were last heard, in monotonic milliseconds."""

    def __init__(self, now_ms: int) -> None:
        self.session_ms = 0  # the controller fences this broker after so much silence
        self.controller_ms = now_ms  # when this broker last had all metadata of the controller
        self._brokers: dict[int, int] = {}
        self._listening_ms = now_ms  # messages were read without delay since this time
        self._looked_ms = now_ms

    def look(self, now_ms: int) -> None:
        """Call it every `LISTENING_MS`. After a late call no broker counts as silent for a while: their messages may be
        there, but not read yet."""
        if now_ms - self._looked_ms > LATE_MS:
            self.listen_anew(now_ms)
        self._looked_ms = now_ms

    def listen_anew(self, now_ms: int) -> None:
        """Count the silence of others from now on."""
        self._listening_ms = now_ms

    def heard(self, broker_id: int, now_ms: int) -> None:
        self._brokers[broker_id] = now_ms

    def silent(self, brokers: Iterable[int], for_ms: int, now_ms: int) -> frozenset[int]:
        """Brokers not heard for `for_ms`; none while the controller is silent, too: this broker may be to blame."""
        if now_ms - self.controller_ms >= CONTROLLER_HEARD_MS or now_ms - self._listening_ms < for_ms:
            return frozenset()
        return frozenset(b for b in brokers if b not in self._brokers or now_ms - self._brokers[b] >= for_ms)

    def nobody(self, followers: Collection[int], now_ms: int) -> bool:
        """Return True if a leader with these followers has heard neither the controller nor any of them for a session.

        Then another broker may lead. A leader without followers is the only one that can lead."""
        silent_ms = self._silent_ms(now_ms)
        return (
            self.misses_controller(now_ms)
            and bool(followers)
            and all(self._brokers.get(broker_id, silent_ms - 1) < silent_ms for broker_id in followers)
        )

    def is_up_to_date(self, now_ms: int) -> bool:
        """Return True if this broker had all metadata of the controller in the last `SIGNS_OF_LIFE_MS`."""
        return now_ms - self.controller_ms <= SIGNS_OF_LIFE_MS

    def misses_controller(self, now_ms: int) -> bool:
        """Return True if the controller was not heard for a session."""
        return self.controller_ms < self._silent_ms(now_ms)

    def _silent_ms(self, now_ms: int) -> int:
        """Return the time since when a broker must have been heard, otherwise it was silent for a session."""
        return now_ms - max(self.session_ms, SIGNS_OF_LIFE_MS)
