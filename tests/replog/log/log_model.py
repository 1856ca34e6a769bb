"""A log as a list of batches, and what a real one must hold and answer: every answer here is a linear scan."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.formats.batch import BatchHeader, add_digests, batch_digest, parse_header
from replog.log.offsets import EpochEndOffset, TimestampAndOffset


class Batch(NamedTuple):
    """One batch as it lies in the log."""

    data: bytes
    timestamps: tuple[int, ...]  # of its records, which have no holes
    header: BatchHeader
    base: int
    last: int
    digest: int

    @classmethod
    def of(cls, data: bytes, timestamps: Iterable[int]) -> "Batch":
        header = parse_header(data)
        return cls(data, tuple(timestamps), header, header.base_offset, header.last_offset, batch_digest(header))


@dataclass
class ModelLog:
    """`batches` begin with those of the first segment: some may lie below `log_start`."""

    config: TopicConfig
    first_base: int = 0
    log_start: int = 0
    high_watermark: int = 0
    recovery_point: int = 0
    batches: list[Batch] = field(default_factory=list)
    removed: list[Batch] = field(default_factory=list)  # by retention: producers are remembered longer
    forced_bases: set[int] = field(default_factory=set)  # where a segment may begin though no batch asked for it

    @property
    def log_end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.first_base

    def append(self, batch: Batch) -> None:
        assert batch.base == self.log_end
        self.batches.append(batch)

    # -- what the log answers

    def read(self, offset: int, max_bytes: int, bound: int, segments: Sequence[int], min_one: bool) -> bytes:
        """The bytes for an offset of the log (LG-7, SG-4), given the segments' base offsets."""
        if offset >= bound:
            return b""
        slot = next(slot for slot, batch in enumerate(self.batches) if batch.last >= offset)
        first = self.batches[slot]
        following = min((base for base in segments if base > first.base), default=self.log_end)
        data = b"".join(batch.data for batch in self.batches[slot:] if batch.last < bound and batch.base < following)
        return data[: max(max_bytes, len(first.data)) if min_one else max_bytes]

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        for batch in self.batches:
            for delta, time in enumerate(batch.timestamps):
                if batch.base + delta >= self.log_start and time >= timestamp:
                    return TimestampAndOffset(time, batch.base + delta, batch.header.leader_epoch)
        return None

    def epochs(self) -> list[tuple[int, int]]:
        """Every epoch that has a record at or after the log start, and where it begins (invariant 4)."""
        entries: list[tuple[int, int]] = []
        for batch in self.batches:
            if batch.last < self.log_start:
                continue
            if not entries or entries[-1][0] < batch.header.leader_epoch:
                entries.append((batch.header.leader_epoch, max(batch.base, self.log_start)))
        return entries

    def end_offset_for(self, epoch: int, entries: Sequence[tuple[int, int]]) -> EpochEndOffset:
        """EP-6, for the epochs and where they begin."""
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return EpochEndOffset(-1, -1)
        ends = [start for _, start in entries[1:]] + [self.log_end]
        known = [(known, end) for (known, _), end in zip(entries, ends, strict=True) if known <= epoch]
        return EpochEndOffset(*known[-1]) if known else EpochEndOffset(epoch, entries[0][1])

    # -- what changes it

    def truncate(self, offset: int) -> None:
        """LG-10, by whole batches (divergence 4)."""
        if offset < self.log_end:
            if offset < self.first_base:
                self.start_anew(offset)
                return
            while self.batches and self.batches[-1].last >= offset:
                self.batches.pop()
        self.log_start = min(self.log_start, self.log_end)
        self.high_watermark = min(self.high_watermark, self.log_end)
        self.recovery_point = min(self.recovery_point, self.log_end)
        self.forced_bases.add(self.log_end)

    def start_anew(self, offset: int) -> None:
        """LG-12."""
        self.batches.clear()
        self.removed.clear()
        self.first_base = self.log_start = self.high_watermark = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.forced_bases = {offset}

    def remove_before(self, base: int) -> None:
        """LG-15."""
        self.removed += self.within(self.first_base, base)
        self.batches = self.within(base, self.log_end)
        self.first_base = base
        self.log_start = max(self.log_start, base)
        self.recovery_point = max(self.recovery_point, base)

    def expired(self, segments: Sequence[tuple[int, int]], now_ms: int) -> int:
        """How many of these (base, size) segments retention removes (LG-13, LG-14)."""
        ends = [base for base, _ in segments[1:]] + [self.log_end]
        times = [
            max((time for batch in self.within(base, end) for time in batch.timestamps), default=-1)
            for (base, _), end in zip(segments, ends, strict=True)
        ]
        may_go = [
            self.high_watermark >= end and not (slot == len(segments) - 1 and segments[slot][1] == 0)
            for slot, end in enumerate(ends)
        ]
        count = 0
        while count < len(segments) - 1 and may_go[count] and ends[count] <= self.log_start:
            count += 1
        if self.config.retention_bytes >= 0:
            while count < len(segments) and may_go[count]:
                if sum(size for _, size in segments[count + 1 :]) < self.config.retention_bytes:
                    break
                count += 1
        if self.config.retention_ms >= 0:
            while count < len(segments) and may_go[count] and 0 <= times[count] < now_ms - self.config.retention_ms:
                count += 1
        return count

    def within(self, start: int, end: int) -> list[Batch]:
        return [batch for batch in self.batches if start <= batch.base < end]


class ModelSegment:
    """What a segment's files hold: a function of its batches and the topic's settings (divergences 1 to 3)."""

    def __init__(self, base: int, config: TopicConfig) -> None:
        self.base, self.config = base, config
        self.log, self.index, self.times, self.digests = b"", b"", b"", b""
        self.since = self.digest = 0
        self.first_time = self.max_time = self.last_time = -1
        self.last = self.max_time_offset = self.last_digest = -1

    def must_end_before(self, batch: Batch) -> bool:
        """SG-6."""
        return bool(self.log) and (
            len(self.log) + len(batch.data) > self.config.segment_bytes
            or (self.first_time >= 0 and batch.header.max_timestamp - self.first_time > self.config.segment_ms)
            or len(self.index) // 8 >= self.config.segment_index_bytes // 8
            or len(self.times) // 12 >= self.config.segment_index_bytes // 12 - 1
        )

    def add(self, batch: Batch) -> None:
        """SG-1, per batch."""
        time = batch.header.max_timestamp
        if not self.log:
            self.first_time = time
        if time > self.max_time:
            self.max_time, self.max_time_offset = time, batch.last
        self.digest, self.last = add_digests(self.digest, batch.digest), batch.last
        if self.since > self.config.index_interval_bytes:
            self.index += struct.pack(">ii", batch.last - self.base, len(self.log))
            self._add_others()
            self.since = 0
        self.since += len(batch.data)
        self.log += batch.data

    def seal(self) -> None:
        """SG-11."""
        if self.log:
            self._add_others()

    def _add_others(self) -> None:
        if self.max_time > self.last_time:
            self.times += struct.pack(">qi", self.max_time, self.max_time_offset - self.base)
            self.last_time = self.max_time
        if self.last > self.last_digest:
            self.digests += struct.pack(">IQ", self.last - self.base, self.digest)
            self.last_digest = self.last

    def files(self) -> dict[str, bytes]:
        contents = {".log": self.log, ".index": self.index, ".timeindex": self.times, ".digest": self.digests}
        return {f"{self.base:020d}{suffix}": data for suffix, data in contents.items()}
