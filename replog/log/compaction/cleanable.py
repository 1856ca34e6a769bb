"""Decides how much of a compacted log the cleaner may touch, and if that is worth it (CL-1, CL-2)."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.log import Log
from replog.log.segment import Segment


class Cleanable(NamedTuple):
    """The parts of a log: clean [.., first_dirty), cleanable [first_dirty, first_uncleanable), and the rest."""

    first_dirty: int
    first_uncleanable: int  # the base of a segment, unless nothing is cleanable
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool  # a dirty segment is older than `max.compaction.lag.ms`

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_worth_it(self, config: TopicConfig) -> bool:
        """Decide by CL-2."""
        enough = self.dirty_ratio > config.min_cleanable_dirty_ratio
        return self.cleanable_bytes > 0 and (enough or self.overdue)


def find_cleanable(log: Log, checkpoint: int | None, now_ms: int | None) -> Cleanable:
    """Return the parts. `checkpoint` is where the last cleaning ended; one that is missing or outside of the log counts
    as log start. Without `now_ms` no lag is over."""
    with log.work:
        return _parts(log, log.whole_segments, checkpoint, now_ms)


def _parts(log: Log, segments: Sequence[Segment], checkpoint: int | None, now_ms: int | None) -> Cleanable:
    config, log_start_offset = log.config, log.log_start_offset
    known = checkpoint is not None and log_start_offset <= checkpoint <= log.log_end_offset
    first_dirty = checkpoint if known and checkpoint is not None else log_start_offset
    active = segments[-1]
    ends = [segment.base_offset for segment in segments[1:]]  # the ends of the sealed ones
    sealed = list(zip(segments, ends, strict=False))
    dirty = [(segment, end) for segment, end in sealed if end > first_dirty]
    bound = min(log.last_stable_offset, active.base_offset)
    if config.min_compaction_lag_ms > 0:
        least = config.min_compaction_lag_ms
        young = (s.base_offset for s, _ in dirty if now_ms is None or s.age_ms(s.max_timestamp, now_ms) < least)
        bound = min([bound, *young])
    cleanable = [(segment, end) for segment, end in dirty if end <= bound]
    return Cleanable(
        first_dirty,
        cleanable[-1][1] if cleanable else first_dirty,
        sum(segment.size for segment, _ in sealed if segment.base_offset < first_dirty),
        sum(segment.size for segment, _ in cleanable),
        now_ms is not None
        and any(
            s.first_timestamp >= 0 and s.age_ms(s.first_timestamp, now_ms) > config.max_compaction_lag_ms
            for s, _ in cleanable
        ),
    )
