"""Recovery: repair a segment from its own bytes (SG-8), and the epoch cache from the batches.

Stricter than Kafka: the CRC is not enough, because offsets and leader epochs are outside of it (RB-2). The header must
be sane. Offsets must increase, without holes unless the topic is compacted. Leader epochs must never go back."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path

from replog.config.topic import TopicConfig
from replog.log.epochs import EpochEntry, LeaderEpochCache
from replog.log.errors import CorruptRecord, IndexOffsetOverflow
from replog.log.formats.batch import HEADER_SIZE, BatchHeader, validate_crc
from replog.log.formats.checkpoint import DamagedCheckpoint
from replog.log.formats.segment_file import LocalFile, read_headers
from replog.log.formats.validation import continues, epoch_starts, fault_of
from replog.log.formats.walk import WINDOW, Break, LogFile
from replog.log.offsets import NO_EPOCH
from replog.log.producers.recovery import LoadingProducers
from replog.log.segment import Segment

MAX_OFFSET = 2**63 - 1


def recover(
    segment: Segment,
    config: TopicConfig,
    epoch: int,
    producers: LoadingProducers,
    *,
    limit: int = MAX_OFFSET,
    check_crc: bool = True,
) -> int:
    """Keep the sound batches at the front, cut the rest, rebuild the indexes. Return the bytes removed.

    `epoch` is the leader epoch of the batch before the segment, -1 if there is none. With holes, no batch may reach
    beyond `limit`. If only an index is in doubt, `check_crc=False` reads headers alone. `producers` are in their state
    before the segment, and follow its batches. The segment is left unsealed, and not flushed."""
    end = segment.file.size()
    for index in segment.indexes:
        index.start_over()
    segment.transaction_index.reset()
    segment.forget()
    suspect = _add_sound_batches(segment, config, max(epoch, 0), producers, limit, check_crc)
    segment.write_indexes()
    segment.cut_file()
    if suspect is None:
        producers.followed(segment.next_offset)
    else:
        segment.truncate_to(suspect)
    return end - segment.size


def _add_sound_batches(
    segment: Segment, config: TopicConfig, epoch: int, producers: LoadingProducers, limit: int, check_crc: bool
) -> int | None:
    """Account for batches up to the first unsound one. Return the base offset of the last one if it is suspect.

    If the leader epoch falls at the first unsound batch, but not below the epoch before the last sound one, then the
    last sound batch has an epoch that is too high, and is suspect. The same holds for offsets, if there may be
    holes."""
    holes, interval = config.compacted, config.index_interval_bytes
    end_before, epoch_before, last_base = segment.base_offset, epoch, segment.base_offset
    with segment.file as fd, suppress(CorruptRecord, IndexOffsetOverflow):  # the rest is not of this segment
        log = LogFile(LocalFile(fd), WINDOW if check_crc else HEADER_SIZE)
        for step in log.walk():
            if isinstance(step, Break):
                return None
            position, header = step
            next_offset = segment.next_offset
            as_usual = header.base_offset == next_offset and header.leader_epoch >= epoch
            if not as_usual and fault_of(header, next_offset, epoch, holes=holes):
                fits = continues(header, end_before if holes else next_offset, holes=holes)
                return last_base if fits and segment.size and header.leader_epoch >= epoch_before else None
            if (holes and header.next_offset > limit) or (check_crc and log.crc(position, header) != header.crc):
                return None
            segment.add(header, interval)
            if header.producer_id >= 0:
                producers.follow(segment, position, header)
            end_before, epoch_before, last_base = next_offset, epoch, header.base_offset
            epoch = header.leader_epoch
    return None


def ends_soundly(segment: Segment) -> bool:
    """Return True if the CRC of the last batch is right: that batch says where the log ends."""
    last = segment.translate(segment.next_offset - 1) if segment.size else None
    if last is None:
        return not segment.size
    position, header = last
    return validate_crc(segment.file.read(position, header.size), 0, header)


def first_epoch(segment: Segment) -> int | None:
    """Return the first leader epoch of a segment that is not loaded yet; None if it does not begin with a batch."""
    try:
        with segment.file as fd:
            _, header = next(read_headers(fd, os.fstat(fd).st_size, 0), (0, None))
    except CorruptRecord:
        return None
    return None if header is None else header.leader_epoch


def suspect_before(segments: Sequence[Segment], epoch: int) -> int | None:
    """Return the base offset of the last batch if its leader epoch alone is too high for `epoch` to follow."""
    last = segments[-1].last_below(segments[-1].next_offset)
    before = None if last is None else _last_below(segments, last.base_offset)
    if last is None or epoch < (0 if before is None else before.leader_epoch):
        return None
    return last.base_offset


def load_epochs(
    path: Path, segments: Sequence[Segment], log_start_offset: int, report: Callable[[str], None]
) -> LeaderEpochCache:
    """Return the epoch cache of these segments: from its file if that agrees with the batches, else rebuilt (LD-10)."""
    try:
        cache = LeaderEpochCache.load(path)
    except DamagedCheckpoint as damage:
        report(damage.message)
        path.unlink()  # an empty cache is not written, so the damaged file would stay
        cache = LeaderEpochCache(path)
    cut_epochs(cache, segments, log_start_offset)
    cache.truncate_from_start(log_start_offset)
    if not epochs_match(cache, segments, log_start_offset):
        report(f"rebuilding {path}: it does not say what the batches say")
        cache.replace(epochs_of(segments))
        cache.truncate_from_start(log_start_offset)
    cache.save()
    return cache


def cut_epochs(cache: LeaderEpochCache, segments: Sequence[Segment], log_start_offset: int) -> None:
    """Forget the epochs that begin at or after the log end (EP-4). If the log start hides all batches, the epoch of the
    last one then begins at the log end, as after a deletion of records (EP-5).

    Otherwise a follower has no epoch to be compared, and appends behind its hidden batches, even if they are of another
    history than its leader's, and of later epochs (INV-14)."""
    end = segments[-1].next_offset
    cache.truncate_from_end(end)
    if cache.latest is None and log_start_offset >= end:
        last_epoch = max(segment.last_epoch for segment in segments)
        if last_epoch != NO_EPOCH:
            cache.assign(last_epoch, end)


def epochs_match(cache: LeaderEpochCache, segments: Sequence[Segment], log_start_offset: int) -> bool:
    """Return True if the cache, cut to the log, has each epoch from its first batch on, and no other.

    Leader epochs never fall along a log, so the first and the last batch of an epoch's range prove the range.
    Compaction may have emptied a range."""
    end = segments[-1].next_offset
    starts = [entry for entry in cache.entries if entry[1] < end]
    if log_start_offset >= end:
        return not starts
    if not starts or starts[0][1] > log_start_offset:
        return False
    ends = [start for _, start in starts[1:]] + [end]
    for (epoch, start), following in zip(starts, ends, strict=True):
        first = _first_reaching(segments, start)
        if first is None or first.base_offset >= following:
            continue
        last = _last_below(segments, following)
        if last is None or not first.leader_epoch == epoch == last.leader_epoch:
            return False
    return True


def _first_reaching(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """Find the first batch that ends at `offset` or later."""
    slot = max(bisect_right(segments, offset, key=attrgetter("base_offset")) - 1, 0)
    batches = (segment.translate(offset) for segment in segments[slot:])
    return next((batch[1] for batch in batches if batch is not None), None)


def _last_below(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """Find the last batch that begins below `offset`."""
    slot = bisect_left(segments, offset, key=attrgetter("base_offset"))
    batches = (segment.last_below(offset) for segment in reversed(segments[:slot]))
    return next((batch for batch in batches if batch is not None), None)


def epochs_of(segments: Sequence[Segment]) -> list[EpochEntry]:
    """Return every leader epoch and its first offset, read from all batch headers. See `epoch_starts` for holes.

    Raises CorruptRecord if they contradict each other."""
    batches = _in_order(chain.from_iterable(segment.batches_from(0) for segment in segments))
    return list(epoch_starts(batches, segments[0].base_offset))


def _in_order(batches: Iterable[tuple[int, BatchHeader]]) -> Iterator[tuple[int, BatchHeader]]:
    next_offset = epoch = 0
    for position, header in batches:
        if fault := fault_of(header, next_offset, epoch, holes=True):
            raise CorruptRecord(fault)
        yield position, header
        next_offset, epoch = header.next_offset, header.leader_epoch
