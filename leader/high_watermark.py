"""Computes how far a leader may raise its high watermark (HW-2 to HW-6)."""

from collections.abc import Callable, Mapping

from leader.follower_state import FollowerState
from leader.isr import IsrState


def high_watermark_candidate(
    leader_end_offset: int,
    followers: Mapping[int, FollowerState],
    isr_state: IsrState,
    *,
    min_insync_replicas: int,
    is_eligible: Callable[[int, FollowerState], bool],
    now_ms: int,
    max_lag_ms: int,
) -> int | None:
    """Return the least log end that the high watermark waits for, or None while too few are in sync (HW-2).

    It waits for every member of the maximal ISR, and for a caught-up, eligible replica that returns: otherwise that
    replica could chase it for ever (HW-3, HW-6). -1 while a member has not fetched in this epoch (HW-5). The caller
    only raises the high watermark to it, never lowers it (HW-4)."""
    if len(isr_state.isr) < min_insync_replicas:
        return None
    candidate = leader_end_offset
    maximal_isr = isr_state.maximal_isr
    for replica_id, follower in followers.items():
        if follower.log_end_offset < candidate and (
            replica_id in maximal_isr
            or (follower.is_caught_up(leader_end_offset, now_ms, max_lag_ms) and is_eligible(replica_id, follower))
        ):
            candidate = follower.log_end_offset
    return candidate
