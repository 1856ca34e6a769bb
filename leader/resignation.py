"""When a leader asks to lead no more: it hears its controller, and nobody who could lead in its place (ISR-20)."""

from collections.abc import Set

from leader.partition import PartitionLeader

LEAST_HEIRS = 2  # one alone would gain nothing: of two brokers each is cut off from the other
MAX_SILENCE_MS = 2000  # four words of one that only waits, by default; to ask the heirs takes up to a second more


def silence_ms(max_lag_ms: int, fetch_wait_ms: int) -> int:
    """Who was not heard for so long is silent: two seconds, or half of what it takes to leave the ISR for that (ISR-5).

    At least twice `fetch_wait_ms`: so often speaks who has all there is, and only waits for more.
    """
    return max(min(MAX_SILENCE_MS, max_lag_ms // 2), 2 * fetch_wait_ms)


def should_resign(leader: PartitionLeader, live: Set[int], silent: Set[int], since_ms: int) -> bool:
    """Whether this leader has something to commit, and those who may lead in its place could and are `silent`.

    These are members of the ISR, or if there is no other those who left it below the minimum (ISR-17). `live` are
    brokers that the controller counts as such. A member that was caught up after `since_ms`, be it because an epoch
    had begun (ST-11), has had no time to speak.
    """
    heirs = (leader.isr - {leader.broker_id} or frozenset(leader.eligible_leaders)) & live
    return (
        len(heirs) >= max(LEAST_HEIRS, leader.min_insync_replicas)
        and heirs <= silent
        and not leader.all_level
        and all(heir in leader.replicas and leader.replicas[heir].caught_up_ms <= since_ms for heir in heirs)
    )
