"""Runs the checker of segments (`log_tools.checker`) for audits: batches become rows, and faults have classes."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.walk import WINDOW
from replog.log_tools.checker.epochs import EpochChecker
from replog.log_tools.checker.findings import Fault
from replog.log_tools.checker.indexes import read_indexes
from replog.log_tools.checker.segment import SegmentChecker
from spark_jobs.replicas.faults import FileFault, capped
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment, open_log
from spark_jobs.replicas.parts import WHOLE, Borders, Part


class Batch(NamedTuple):
    """A sound batch."""

    position: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    size: int


def check_segment(
    segment: ReplicaSegment, log_start: int, *, crc: bool, part: Part = WHOLE
) -> Iterator[Batch | FileFault]:
    """Yield every sound batch, and every fault of the segment's log and indexes. Raises OSError if a file cannot be
    read. Without `crc` no payload is read, except where something does not fit. Over all parts, every batch and every
    fault comes once, but the limit of listed faults is that of each part.
    """
    return capped(_check(segment, log_start, part, crc))


def _check(segment: ReplicaSegment, log_start: int, part: Part, crc: bool) -> Iterator[Batch | Fault]:
    indexes = read_indexes(segment)
    with open_log(segment, WINDOW if crc else HEADER_SIZE) as log:
        # A live broker writes an epoch before its first batch (EP-9): read before the log's size, it might miss.
        checkpoint = segment.epochs()

        def new_checker() -> SegmentChecker:
            return SegmentChecker(segment, indexes, epoch_checker(checkpoint, log_start), crc=crc)

        borders = Borders(segment, indexes, log, new_checker)
        begin = borders.find(part)
        if begin is None:
            return  # the part before reads on to the next border
        later = (borders.find(part._replace(number=number)) for number in range(part.number + 1, part.of))
        end = next(filter(None, later), None)
        if part.number == 0:
            yield from indexes.shape_faults()
        else:
            begin.checker.own(begin.following)
        for item in begin.checker.run(log, begin.position, None if end is None else end.position):
            if isinstance(item, Fault):
                yield item
                continue
            position, header = item
            yield Batch(position, header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.size)
        yield from begin.checker.finish(log) if end is None else begin.checker.leave(end.following)


def epoch_checker(checkpoint: EpochCheckpoint, log_start: int) -> EpochChecker:
    entries = checkpoint.entries if checkpoint.fault is None else ()
    return EpochChecker(entries, log_start, unclean=checkpoint.unclean, flushed=checkpoint.flushed)
