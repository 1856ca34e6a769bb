"""What can be wrong in one replica's own files, and how much of it is listed."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

BIT_ROT = "BIT_ROT"
GAP = "GAP"
REPEATED = "REPEATED"  # offsets come twice: none is missing
INDEX_LIE = "INDEX_LIE"
EPOCH_CACHE_LIE = "EPOCH_CACHE_LIE"
UNREADABLE = "UNREADABLE"
VANISHED = "VANISHED"  # no damage: retention, truncation or a cleaning took it away while it was read
NO_DIGESTS = "NO_DIGESTS"  # no damage: nobody wrote a digest index

MAX_FAULTS = 100  # listed of each class and segment, or part of one: enough to see what happened

Item = TypeVar("Item")


class FileFault(NamedTuple):
    """Something wrong in one replica's own files: offsets it concerns, where, and what was seen."""

    fault: str  # its class
    file: str  # suffix of the segment's file
    position: int
    first: int
    last: int
    epoch: int
    detail: str


def capped(items: Iterator[Item | FileFault]) -> Iterator[Item | FileFault]:
    """`items` with no more than `MAX_FAULTS` faults of a class; the last one says that there may be more."""
    counts: dict[str, int] = {}
    for item in items:
        if isinstance(item, FileFault):
            seen = counts[item.fault] = counts.get(item.fault, 0) + 1
            if seen > MAX_FAULTS:
                continue
            if seen == MAX_FAULTS:
                yield item._replace(detail=f"{item.detail} (there may be more: this is the last that is listed here)")
                continue
        yield item
