"""Which segments are expired (LG-13, LG-14). Pure decisions; the log acts on them."""

from collections.abc import Callable, Sequence

from replog.config import TopicConfig
from replog.log.segment import Segment

AT_ONCE = 16  # segments, whose files are renamed, five or six each: a millisecond or two

Predicate = Callable[[int], bool]  # of a slot in the segment list


def expired_segments(
    segments: Sequence[Segment],
    config: TopicConfig,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> int:
    """How many of the oldest segments may go now: first those below the log start. Then, unless the topic is only
    compacted, by size and by time (LG-13)."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]

    def walk(first: int, predicate: Predicate) -> int:
        slot = first
        while (
            slot < len(segments)
            and high_watermark >= ends[slot]
            and not (slot == len(segments) - 1 and segments[slot].size == 0)
            and predicate(slot)
        ):
            slot += 1
        return slot

    count = walk(0, lambda slot: slot + 1 < len(segments) and ends[slot] <= log_start_offset)
    if not config.deletes_by_retention:
        return min(count, AT_ONCE)
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes

        def too_much(slot: int) -> bool:
            nonlocal excess
            excess -= segments[slot].size
            return excess >= 0

        if excess >= 0:
            count = walk(count, too_much)
    if config.retention_ms >= 0:
        count = walk(count, lambda slot: now_ms - segments[slot].largest_timestamp() > config.retention_ms)
    return min(count, AT_ONCE)
