"""The classes of faults in one replica's own files, and the limit of how many are listed."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.indexes import MAX_FAULTS

BIT_ROT = "BIT_ROT"
GAP = "GAP"
REPEATED = "REPEATED"  # offsets come twice, but none is missing
INDEX_LIE = "INDEX_LIE"
EPOCH_CACHE_LIE = "EPOCH_CACHE_LIE"
UNREADABLE = "UNREADABLE"
VANISHED = "VANISHED"  # no damage: retention, truncation or a cleaning took it away while it was read
NO_DIGESTS = "NO_DIGESTS"  # no damage: nobody wrote a digest index

CLASSES = {  # the checker's other kinds are not reported, such as the torn end of a log, which a start cuts off
    Kind.BATCH_HEADER: BIT_ROT,
    Kind.BATCH_CRC: BIT_ROT,
    Kind.BASE_OFFSET: BIT_ROT,
    Kind.SURPLUS: BIT_ROT,
    Kind.HOLE: GAP,
    Kind.OFFSET_BACK: REPEATED,
    Kind.INDEX_SHAPE: INDEX_LIE,
    Kind.INDEX_ORDER: INDEX_LIE,
    Kind.INDEX_ENTRY: INDEX_LIE,
    Kind.INDEX_BEYOND: INDEX_LIE,
    Kind.DIGEST: INDEX_LIE,
    Kind.TRANSACTION_INDEX: INDEX_LIE,
    Kind.SNAPSHOT: INDEX_LIE,
    Kind.SNAPSHOT_STATE: INDEX_LIE,
    Kind.EPOCHS: EPOCH_CACHE_LIE,
    Kind.RECORDS: UNREADABLE,
}

Item = TypeVar("Item")


class FileFault(NamedTuple):
    """A fault in one replica's own files: the offsets it concerns, its place, and what was seen."""

    fault: str  # its class
    file: str  # suffix of the segment's file, or the name of a file beside it
    position: int
    first: int
    last: int
    epoch: int
    detail: str


def capped(items: Iterator[Item | Fault]) -> Iterator[Item | FileFault]:
    """Yield `items`, with at most `MAX_FAULTS` faults of each class; the last one says that there may be more."""
    counts: dict[str, int] = {}
    for item in items:
        if not isinstance(item, Fault):
            yield item
        elif item.kind in CLASSES:
            fault = FileFault(CLASSES[item.kind], *item[1:])
            seen = counts[fault.fault] = counts.get(fault.fault, 0) + 1
            if seen < MAX_FAULTS:
                yield fault
            elif seen == MAX_FAULTS:
                yield fault._replace(detail=f"{fault.detail} (there may be more: this is the last that is listed here)")
