"""What a follower does when the leader cannot serve its fetch offset (FT-19)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """The leader ends earlier: cut to its end. A mismatch below is found by the next fetch's epoch."""

    offset: int


@dataclass(frozen=True, slots=True)
class RestartAt:
    """The leader begins later: drop everything and begin there."""

    offset: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The offset is in range, so the leader lacks the epoch: try again (FT-21)."""


def recover_from_out_of_range(leader_start: int, leader_end: int, log_end_offset: int) -> TruncateTo | RestartAt | Keep:
    """Decide from the leader's bounds and this log's end."""
    if leader_end < log_end_offset:
        return TruncateTo(leader_end)
    if leader_start > log_end_offset:
        return RestartAt(leader_start)
    return Keep()
