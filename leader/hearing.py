"""Whom a broker hears: it tells a leader that may be one no more (divergence 29), or should be none (divergence 32)."""

from collections.abc import Collection, Iterable

SIGNS_OF_LIFE_MS = 3000  # the controller speaks every second: it is not missed before, however short a session is
CONTROLLER_HEARD_MS = 1500  # and who was not heard for so long cannot be said to be there
LISTENING_MS = 250  # between two looks at who is silent: who is waited for two seconds is noticed not much later;
LATE_MS = 2 * LISTENING_MS  # a look was missed: this broker was slow, for five times as long as one step may take


class Hearing:
    """When the controller and each other broker were last heard. Times are monotonic milliseconds."""

    def __init__(self, now_ms: int) -> None:
        self.session_ms = 0  # after so much silence the controller has fenced this broker
        self.controller_ms = now_ms  # when the metadata was last all that the controller knew
        self._brokers: dict[int, int] = {}
        self._listening_ms = now_ms  # since then whatever came was taken in without delay
        self._looked_ms = now_ms

    def look(self, now_ms: int) -> None:
        """To be called every `LISTENING_MS`. If it comes late, what came meanwhile may not have been taken in yet:
        nobody is silent for a while, be the others or this broker slow on a machine that is too busy."""
        if now_ms - self._looked_ms > LATE_MS:
            self.listen_anew(now_ms)
        self._looked_ms = now_ms

    def listen_anew(self, now_ms: int) -> None:
        """From here on count how long others are silent."""
        self._listening_ms = now_ms

    def heard(self, broker_id: int, now_ms: int) -> None:
        self._brokers[broker_id] = now_ms

    def silent(self, brokers: Iterable[int], for_ms: int, now_ms: int) -> frozenset[int]:
        """Who was not heard for so long. While the controller is silent, too, nobody: this broker may be to blame."""
        if now_ms - self.controller_ms >= CONTROLLER_HEARD_MS or now_ms - self._listening_ms < for_ms:
            return frozenset()
        return frozenset(b for b in brokers if b not in self._brokers or now_ms - self._brokers[b] >= for_ms)

    def nobody(self, followers: Collection[int], now_ms: int) -> bool:
        """Whether a leader with these followers has heard neither the controller nor any of them for a session.

        Others then lead, if anybody does. One without followers is the only one that can.
        """
        silent_ms = self._silent_ms(now_ms)
        return (
            self.misses_controller(now_ms)
            and bool(followers)
            and all(self._brokers.get(broker_id, silent_ms - 1) < silent_ms for broker_id in followers)
        )

    def is_up_to_date(self, now_ms: int) -> bool:
        """Whether the metadata was all that the controller knew just now."""
        return now_ms - self.controller_ms <= SIGNS_OF_LIFE_MS

    def misses_controller(self, now_ms: int) -> bool:
        """Whether the controller was not heard for a session."""
        return self.controller_ms < self._silent_ms(now_ms)

    def _silent_ms(self, now_ms: int) -> int:
        """Who was heard before then was silent for a session."""
        return now_ms - max(self.session_ms, SIGNS_OF_LIFE_MS)
