"""Notes which brokers are heard: a leader may be deposed (divergence 29), or should step down (ISR-20)."""

from collections.abc import Collection, Iterable, Set

from leader.partition_leader import PartitionLeader
from replog.metadata.values import LEAST_CANDIDATES

SIGNS_OF_LIFE_MS = 3000  # the controller speaks every second, so even a shorter session waits this long for it
CONTROLLER_HEARD_MS = 1500  # a controller that was silent for longer may be gone
LISTENING_MS = 250  # the pause between two looks: two seconds of silence are noticed soon
MAX_SILENCE_MS = 2000  # four fetches of an idle follower, by default; to ask the others takes up to a second more
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


def silence_ms(max_lag_ms: int, fetch_wait_ms: int) -> int:
    """Return how long a broker is unheard before it counts as silent: two seconds, or half the time after which it
    leaves the ISR (ISR-5). It is at least twice `fetch_wait_ms`: a follower that waits for data is heard that often."""
    return max(min(MAX_SILENCE_MS, max_lag_ms // 2), 2 * fetch_wait_ms)


def should_resign(leader: PartitionLeader, live: Set[int], silent: Set[int], since_ms: int) -> bool:
    """Return True if this leader has something to commit, and enough replicas could lead instead, all of them `silent`.

    Those replicas are the other live members of the ISR or, if it has no others, those that left it below the minimum
    (ISR-17): a leader below the minimum commits nothing, so it need not have anything yet. `live` are the brokers that
    the controller counts as live. A member that was caught up after `since_ms`, even because an epoch had begun
    (ST-11), has had no time to speak. A new partition has nothing to commit, however long its other replicas take to be
    made."""
    candidates = (leader.state.isr - {leader.broker_id} or frozenset(leader.eligible_leaders)) & live
    return (
        len(candidates) >= max(LEAST_CANDIDATES, leader.min_insync_replicas)
        and candidates <= silent
        and (leader.log.high_watermark < leader.log.log_end_offset or bool(leader.eligible_leaders))
        and all(other in leader.replicas and leader.replicas[other].caught_up_ms <= since_ms for other in candidates)
    )
