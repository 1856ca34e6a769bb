"""Checks a segment's transaction index, and the snapshots at its ends, against its batches, as `log verify` does.

A segment begins with the snapshot of the one before, so that each is judged by itself. Without it, the state of
producers before the segment is not known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from replog.config.properties import MAX_LONG
from replog.log.errors import CorruptSnapshot
from replog.log.files.names import SNAPSHOT_SUFFIX, segment_file_name
from replog.log.formats.batch import CONTROL, HEADER_SIZE
from replog.log.formats.control_batch import marker_or_none
from replog.log.formats.walk import MAX_BATCH_IN_MEMORY, Break
from replog.log.producers.snapshot import MAX_SNAPSHOT_BYTES, ProducerSnapshotEntry, parse_snapshot
from replog.log_tools.checker.findings import Fault, Kind
from replog.log_tools.checker.segment import Batch
from replog.log_tools.verify.transactions import Producers, TransactionIndexCheck
from spark_jobs.replicas.blocks import Producing
from spark_jobs.replicas.faults import FileFault, capped
from spark_jobs.replicas.files import ReplicaSegment, open_log


def producer_faults(
    segment: ReplicaSegment, log_start: int, mark: int, producing: Producing | None = None
) -> Iterator[FileFault]:
    """Yield the faults of a segment whose log is sound, if its store shows these files. Raises OSError.

    Above the high watermark `mark` a broker may not have written them yet. Without `producing`, the batches to replay,
    all headers are read.
    """
    offsets = segment.store.snapshots(segment)
    return iter(()) if offsets is None else capped(_faults(segment, log_start, mark, offsets, producing))


def _faults(
    segment: ReplicaSegment, log_start: int, mark: int, offsets: list[int], producing: Producing | None
) -> Iterator[Fault]:
    checkpoint = segment.epochs()
    flushed = MAX_LONG if checkpoint.flushed is None else checkpoint.flushed
    begun, known_from, end = None, max(log_start, checkpoint.begin, segment.cleaned_to), segment.base
    if segment.base in offsets:
        begun, damage = _read(segment, segment.base)
        if damage is not None and not segment.bytes_before:
            yield damage  # the segment before has reported that of later ones
    if begun is None:
        known_from = max(known_from, segment.base)
    compacted = segment.base < segment.cleaned_to
    producers = Producers(known_from, compacted=compacted, begin=segment.base, entries=begun)
    if begun is not None and not segment.bytes_before:
        yield from producers.check_snapshot(begun, segment.base)
    transactions = TransactionIndexCheck(segment, producers, exact=not compacted)  # a live broker writes the log first
    yield from transactions.faults
    coming = [offset for offset in offsets if segment.base < offset <= mark]
    with open_log(segment, HEADER_SIZE) as log:
        batches: Iterable[Batch] = (item for item in log.walk() if not isinstance(item, Break))
        if (
            producing is not None
            and segment.next_base is not None
            and all(offset >= producing.end for offset in coming)
        ):
            batches, end = producing, producing.end  # not the last segment's, whose index may have grown since
        for position, header in batches:
            end = max(end, header.next_offset)
            while coming and coming[0] <= header.base_offset:
                yield from _snapshot_faults(segment, producers, coming.pop(0), flushed)
            marker = None
            if header.attributes & CONTROL and header.size <= MAX_BATCH_IN_MEMORY:
                marker = marker_or_none(bytes(log.read(position, header.size)), header)
            for fault in transactions.see(header, marker, producers.see(header, marker)):
                if fault.first < mark:
                    yield fault._replace(position=max(fault.position, 0))
        for offset in coming:
            if offset <= (segment.next_base or end):  # a start removes later ones
                yield from _snapshot_faults(segment, producers, offset, flushed)
    yield from transactions.beyond()


def _snapshot_faults(segment: ReplicaSegment, producers: Producers, offset: int, flushed: int) -> Iterator[Fault]:
    entries, damage = _read(segment, offset)
    if damage is not None and offset <= flushed:  # a crash may have torn later ones (PS-8)
        yield damage
    if entries is not None:
        yield from producers.check_snapshot(entries, offset)


def _read(segment: ReplicaSegment, offset: int) -> tuple[list[ProducerSnapshotEntry] | None, Fault | None]:
    """Return the entries, or the fault of the file; neither if it is gone, since brokers keep few."""
    try:
        with replace(segment, base=offset).open(SNAPSHOT_SUFFIX) as file:
            if file.size > MAX_SNAPSHOT_BYTES:
                raise CorruptSnapshot(f"the producer snapshot is larger than {MAX_SNAPSHOT_BYTES} bytes")
            return parse_snapshot(file.read(0, file.size)), None
    except FileNotFoundError:
        return None, None
    except CorruptSnapshot as damage:
        name, last = segment_file_name(offset, SNAPSHOT_SUFFIX), max(segment.base, offset - 1)
        return None, Fault(Kind.SNAPSHOT, name, 0, last, last, -1, damage.message)
