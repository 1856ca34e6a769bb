"""A leader gives up its leadership when it hears its controller, but no broker that could lead instead (ISR-20)."""

from collections.abc import Set

from leader.partition_leader import PartitionLeader
from replog.metadata.values import LEAST_CANDIDATES

MAX_SILENCE_MS = 2000  # four fetches of an idle follower, by default; to ask the others takes up to a second more


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
