"""Runs the checker of segments (`log_tools.checker`) for audits: batches become rows, and faults have classes.

`settled` separates damage from changes during the read: a fault counts only if it is seen twice.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.segment_file import Vanished
from replog.log.formats.walk import WINDOW
from replog.log_tools.checker.findings import Fault
from replog.log_tools.checker.indexes import read_indexes
from replog.log_tools.checker.segment import EpochChecker, SegmentChecker
from spark_jobs.replicas.faults import UNREADABLE, VANISHED, FileFault, Item, capped
from spark_jobs.replicas.files import ReplicaSegment, open_log

Look = Callable[[ReplicaSegment, int], Iterator[Item | FileFault]]  # takes a segment and the log start offset


class Batch(NamedTuple):
    """A sound batch."""

    position: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    size: int


def check_segment(segment: ReplicaSegment, log_start: int, *, crc: bool) -> Iterator[Batch | FileFault]:
    """Yield every sound batch, and every fault of the segment's log and indexes. Raises OSError if a file cannot be
    read. Without `crc` no payload is read, except where something does not fit.
    """
    return capped(_check(segment, log_start, crc))


def _check(segment: ReplicaSegment, log_start: int, crc: bool) -> Iterator[Batch | Fault]:
    indexes = read_indexes(segment)
    with open_log(segment, WINDOW if crc else HEADER_SIZE) as log:
        # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
        checkpoint = segment.epochs()
        entries = checkpoint.entries if checkpoint.fault is None else ()
        epochs = EpochChecker(entries, log_start, unclean=checkpoint.unclean, flushed=checkpoint.flushed)
        checker = SegmentChecker(segment, indexes, epochs, crc=crc)
        yield from indexes.shape_faults()
        for item in checker.run(log):
            if isinstance(item, Fault):
                yield item
                continue
            position, header = item
            yield Batch(position, header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.size)
        yield from checker.finish(log)


def settled(look: Look[Item], segment: ReplicaSegment, log_start: int) -> Iterator[Item | FileFault]:
    """Yield what `look` finds in a segment; then the faults that it finds again in the segment as it is by then.

    If a fault is not seen again, or the segment is gone or cut, one fault of class VANISHED follows. If a file cannot
    be read, the faults found so far and one of class UNREADABLE follow.
    """
    faults: dict[tuple[str, str, int, int], FileFault] = {}
    try:
        for item in look(segment, log_start):
            if isinstance(item, FileFault):
                faults.setdefault(_same(item), item)
            else:
                yield item
        if faults:
            now, start = segment.again()
            again = {_same(item) for item in look(now, max(log_start, start)) if isinstance(item, FileFault)}
            _, start = segment.again()
            # If the log start has moved, the epoch checkpoint has lost the epochs below it.
            kept = [f for key, f in faults.items() if key in again and not (f.last < start and start > log_start)]
            yield from kept
            if len(kept) < len(faults):
                yield _about(segment, VANISHED, "what was wrong here is not seen any more: the log has moved on")
    except Vanished as error:
        yield unread(segment, error)
    except OSError as error:
        yield from faults.values()
        yield unread(segment, error)


def _same(fault: FileFault) -> tuple[str, str, int, int]:
    return fault.fault, fault.file, fault.position, fault.first


def unread(segment: ReplicaSegment, error: OSError) -> FileFault:
    """Return the fault of a segment that could not be read to its end."""
    return _about(segment, VANISHED if isinstance(error, Vanished) else UNREADABLE, str(error))


def _about(segment: ReplicaSegment, kind: str, detail: str) -> FileFault:
    last = segment.base if segment.next_base is None else segment.next_base - 1
    return FileFault(kind, LOG_SUFFIX, 0, segment.base, last, -1, detail)
