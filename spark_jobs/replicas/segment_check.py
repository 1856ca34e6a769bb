"""Runs the checker of segments (`log_tools.checker`) for audits: batches become rows, and faults have classes."""

from collections.abc import Iterator
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


def until_unread(segment: ReplicaSegment, items: Iterator[Item]) -> Iterator[Item | FileFault]:
    """Yield the items of a segment; if one of its files cannot be read, the last one is a fault that says so."""
    try:
        yield from items
    except OSError as error:
        kind = VANISHED if isinstance(error, Vanished) else UNREADABLE
        last = segment.base if segment.next_base is None else segment.next_base - 1
        yield FileFault(kind, LOG_SUFFIX, 0, segment.base, last, -1, str(error))
