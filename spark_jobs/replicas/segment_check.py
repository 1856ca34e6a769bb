"""The judge of segments (`replog.log.tools.judge`) for audits: its batches as rows, its faults by class."""

from collections.abc import Iterator
from typing import NamedTuple

from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.walk import WINDOW
from replog.log.tools.judge.epochs import EpochJudge
from replog.log.tools.judge.findings import Fault
from replog.log.tools.judge.indexes import read_indexes
from replog.log.tools.judge.segment import Batch as Judged
from replog.log.tools.judge.segment import SegmentJudge
from spark_jobs.replicas.faults import FileFault, capped
from spark_jobs.replicas.files import EpochCheckpoint, ReplicaSegment, open_log


class Batch(NamedTuple):
    """A sound batch."""

    position: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    size: int


def check_segment(segment: ReplicaSegment, log_start: int, *, crc: bool) -> Iterator[Batch | FileFault]:
    """Every sound batch, and every fault of the segment's log and indexes. Raises OSError if a file cannot be read.

    Without `crc` no payload is read, except where something does not fit.
    """
    return capped(as_rows(_judged(segment, log_start, crc)))


def _judged(segment: ReplicaSegment, log_start: int, crc: bool) -> Iterator[Judged | Fault]:
    indexes = read_indexes(segment)
    yield from indexes.shape_faults()
    with open_log(segment, WINDOW if crc else HEADER_SIZE) as log:
        # Read after the log's size is known: a live broker notes an epoch with its first batch (EP-9).
        judge = SegmentJudge(segment, indexes, epoch_judge(segment.epochs(), log_start), crc=crc)
        yield from judge.run(log, 0)
        yield from judge.finish(log)


def as_rows(items: Iterator[Judged | Fault]) -> Iterator[Batch | Fault]:
    for item in items:
        if isinstance(item, Fault):
            yield item
        else:
            position, header = item
            yield Batch(position, header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.size)


def epoch_judge(checkpoint: EpochCheckpoint, log_start: int) -> EpochJudge:
    entries = checkpoint.entries if checkpoint.fault is None else ()
    return EpochJudge(entries, log_start, unclean=checkpoint.unclean, flushed=checkpoint.flushed)
