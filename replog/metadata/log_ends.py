"""Compares how far replicas of a partition without a leader go (CT-30)."""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from replog.metadata.values import NO_LEADER


class LogEnd(NamedTuple):
    """The end of a log. The greater one has more of what was committed last: epochs count before offsets. One without
    records is the exception: all below its end was committed, and is deleted."""

    last_epoch: int  # the newest that it knows; -1: it has no records; MISSING: it is not on the broker's disks
    end_offset: int

    def covers(self, other: "LogEnd") -> bool:
        """Return True if nothing of the other log is lost with this one."""
        return self >= other or (self.last_epoch == -1 and self.end_offset >= other.end_offset)


NO_RECORDS = LogEnd(-1, 0)


def furthest_of(log_ends: Mapping[int, LogEnd], had_all: Container[int], adding: Container[int]) -> int:
    """Return the replica with the newest epoch, then the longest log, then one that is not being added; or NO_LEADER.
    `log_ends` is in order of preference.

    Replicas that had everything until they stopped go first: another may have a newer epoch of a leader that committed
    nothing in it. One with a longer log and an epoch no older goes before them: they lost their newest records. So does
    one whose records are all deleted, and which ends later than all of these."""

    def first(is_wanted: Callable[[int], bool], otherwise: int) -> int:
        wanted = (replica for replica in log_ends if is_wanted(replica))
        return max(wanted, key=lambda r: (log_ends[r], r not in adding), default=otherwise)

    best = first(lambda r: r in had_all, first(lambda _: True, NO_LEADER))
    if best == NO_LEADER:
        return NO_LEADER
    epoch, end = log_ends[best]
    best = first(lambda r: log_ends[r].last_epoch >= epoch and log_ends[r].end_offset > end, best)
    end = log_ends[best].end_offset
    return first(lambda r: log_ends[r].last_epoch == -1 and log_ends[r].end_offset > end, best)
