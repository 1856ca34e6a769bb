"""The description of one replica in `replog_replicas`: its bounds, and any fault of its epoch checkpoint."""

from dataclasses import dataclass, replace

from replog.config.properties import MAX_LONG
from replog.log.formats.walk import Break
from replog.topic import TopicPartition
from spark_jobs.replicas.faults import EPOCH_CACHE_LIE, UNREADABLE
from spark_jobs.replicas.files import EpochCheckpoint, PartitionFiles, ReplicaSegment, last_indexed, open_log

_WINDOW = 4096  # bytes of one read near the log end


Place = tuple[str, int, int]  # topic, partition, replica


@dataclass(frozen=True)
class Replica:
    """A row of `replog_replicas`. Partition -1 of no topic stands for a whole log directory."""

    replica: int
    topic: str
    partition: int
    log_start: int
    high_watermark: int | None  # None: not known
    log_end: int
    size: int  # bytes of all .log files
    segments: int
    fault: str | None = None
    file: str | None = None
    detail: str | None = None
    leads: bool | None = None  # None: not known, as for a directory
    leader_epoch: int | None = None  # None: not known, as for a directory
    cleaned_to: int = 0  # below it compaction may have taken offsets out
    topic_id: str | None = None  # None: not known
    read: int = 0  # bytes of segments' files that were read for it

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.replica

    @property
    def readable(self) -> bool:
        return self.fault != UNREADABLE

    @property
    def suspect(self) -> bool:
        """True if its description alone makes a finding."""
        return self.fault is not None or self.log_end < self.mark

    @property
    def mark(self) -> int:
        """The offset below which it knows its data to be committed; 0 if it does not know."""
        return self.high_watermark or 0


def describe(files: PartitionFiles) -> Replica:
    """Describe a replica; one that cannot be read is UNREADABLE."""
    # Read after the log, the checkpoint might have an entry beyond the log end.
    epochs = files.epochs() if files.error is None else EpochCheckpoint()
    described = _bounds(files)
    if files.log_end is not None and epochs.entries and epochs.entries[-1][1] > described.log_end:
        # A running broker was asked for its bounds before, and they may have moved.
        listed = files.store.partitions(frozenset({files.partition.topic}))
        described = _bounds(next((again for again in listed if again.partition == files.partition), files))
    if described.fault is not None:
        return described
    if epochs.fault is None and not epochs.entries and described.log_end > described.log_start:
        epochs = files.epochs()  # a live broker may have written it meanwhile
    if epochs.fault is not None:
        return replace(described, fault=epochs.fault, file=epochs.path, detail=epochs.detail)
    lags_from = MAX_LONG if epochs.flushed is None else epochs.flushed
    if not epochs.entries and described.log_start < min(described.log_end, lags_from):
        return replace(
            described, fault=EPOCH_CACHE_LIE, file=epochs.path, detail="the epoch checkpoint is missing or empty"
        )
    has_lost_its_tail = described.log_end < described.mark  # the batches of the last entries may be lost with it
    knows_its_end = not epochs.unclean and not has_lost_its_tail
    if epochs.entries and epochs.entries[-1][1] > described.log_end and knows_its_end:
        detail = f"the epoch checkpoint's last entry {epochs.entries[-1]} begins beyond the log end {described.log_end}"
        return replace(described, fault=EPOCH_CACHE_LIE, file=epochs.path, detail=detail)
    return described


def _bounds(files: PartitionFiles) -> Replica:
    error, log_end = files.error, files.log_end
    if error is None and log_end is None:
        try:
            log_end = max(files.log_start, _log_end(files.segments[-1])) if files.segments else files.log_start
        except OSError as failure:
            error = str(failure)
    end = files.log_start if log_end is None else log_end
    described = Replica(
        files.replica,
        *files.partition,
        files.log_start,
        files.high_watermark,
        end,
        sum(segment.size for segment in files.segments),
        len(files.segments),
        leads=files.leads,
        leader_epoch=files.leader_epoch,
        cleaned_to=min(files.cleaned_to, end),
        topic_id=files.topic_id,
    )
    return described if error is None else replace(described, fault=UNREADABLE, file=files.place, detail=error)


def _log_end(segment: ReplicaSegment) -> int:
    """Return the offset after the last batch that can be read, on a walk from the last true index entry."""
    next_offset = segment.base
    with open_log(segment, _WINDOW) as log:
        for item in log.walk(last_indexed(segment, log)):
            if not isinstance(item, Break):
                next_offset = item[1].next_offset
    return next_offset
