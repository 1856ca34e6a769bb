"""What `replog_replicas` says of one replica: its bounds, and whether its epoch checkpoint can be right."""

from typing import NamedTuple

from replog.log.formats.walk import Break
from replog.properties import MAX_LONG
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE, UNREADABLE
from spark_jobs.replicas.files import EpochCheckpoint, PartitionFiles, ReplicaSegment, open_log
from spark_jobs.replicas.index_files import last_indexed

_WINDOW = 4096  # bytes read at once near the log end


class Description(NamedTuple):
    """A row of `replog_replicas`."""

    replica: int
    topic: str
    partition: int
    log_start: int
    high_watermark: int | None  # None: not known
    log_end: int
    size: int  # bytes of all .log files
    segments: int
    leads: bool | None  # None, for a directory: not known
    leader_epoch: int | None
    cleaned_to: int  # below it compaction may have taken offsets out; 0: nowhere
    topic_id: str | None  # None: not known
    fault: str | None = None
    file: str | None = None
    detail: str | None = None
    read: int = 0  # bytes of segments' files that it took to tell


def describe(files: PartitionFiles) -> Description:
    """A replica that cannot be read is described as UNREADABLE."""
    # Read before the log: no entry begins beyond its end.
    epochs = files.epochs() if files.error is None else EpochCheckpoint()
    described = _bounds(files)
    if files.log_end is not None and epochs.entries and epochs.entries[-1][1] > described.log_end:
        # A running broker was asked for its bounds first. They may have moved.
        listed = files.store.partitions(frozenset({files.partition.topic}))
        described = _bounds(next((again for again in listed if again.partition == files.partition), files))
    if described.fault is not None:
        return described
    if epochs.fault is None and not epochs.entries and described.log_end > described.log_start:
        epochs = files.epochs()  # a live broker may have written it meanwhile
    if epochs.fault is not None:
        return described._replace(fault=epochs.fault, file=epochs.path, detail=epochs.detail)
    lags_from = MAX_LONG if epochs.flushed is None else epochs.flushed
    if not epochs.entries and described.log_start < min(described.log_end, lags_from):
        return described._replace(
            fault=EPOCH_CACHE_LIE, file=epochs.path, detail="the epoch checkpoint is missing or empty"
        )
    has_lost_its_tail = described.log_end < (described.high_watermark or 0)  # and with it those batches
    knows_its_end = not epochs.unclean and not has_lost_its_tail
    if epochs.entries and epochs.entries[-1][1] > described.log_end and knows_its_end:
        detail = f"the epoch checkpoint's last entry {epochs.entries[-1]} begins beyond the log end {described.log_end}"
        return described._replace(fault=EPOCH_CACHE_LIE, file=epochs.path, detail=detail)
    return described


def _bounds(files: PartitionFiles) -> Description:
    error, log_end = files.error, files.log_end
    if error is None and log_end is None:
        try:
            log_end = max(files.log_start, _log_end(files.segments[-1])) if files.segments else files.log_start
        except OSError as failure:
            error = str(failure)
    end = files.log_start if log_end is None else log_end
    return Description(
        files.replica,
        files.partition.topic,
        files.partition.partition,
        files.log_start,
        files.high_watermark,
        end,
        sum(segment.size for segment in files.segments),
        len(files.segments),
        files.leads,
        files.leader_epoch,
        min(files.cleaned_to, end),
        files.topic_id,
        *((UNREADABLE, files.place, error) if error is not None else ()),
    )


def _log_end(segment: ReplicaSegment) -> int:
    """The offset after the last batch that can be read: walks from the last index entry at which a batch begins."""
    next_offset = segment.base
    with open_log(segment, _WINDOW) as log:
        for item in log.walk(last_indexed(segment, log)):
            if not isinstance(item, Break):
                next_offset = item[1].next_offset
    return next_offset
