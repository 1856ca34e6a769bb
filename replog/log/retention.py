"""Deletes old segments (LG-13 to LG-15)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.log.log import Log
from replog.log.segment import Segment

AT_ONCE = 16  # so many segments take a millisecond or two: five or six files of each are renamed

Predicate = Callable[[int], bool]  # takes a slot in the segment list
Expired = tuple[int, str]  # the segments before this slot may go; the reason


class Deletion(NamedTuple):
    """The records that retention has removed together."""

    why: str
    records: int  # more than there were if the cleaner has left holes
    up_to: int  # the last offset that is gone
    newest_ms: int  # the greatest of the records' timestamps
    written_ms: int  # the time of the last segment's file


def expired_segments(
    segments: Sequence[Segment],
    config: TopicConfig,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int | None,
) -> list[Expired]:
    """Return the segments that may go now: those below the log start, then, unless the topic is only compacted, by
    size, then by time if `now_ms` is given (LG-13)."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    expired: list[Expired] = []

    def walk(why: str, predicate: Predicate) -> None:
        first = slot = expired[-1][0] if expired else 0
        while (
            slot < min(len(segments), AT_ONCE)
            and high_watermark >= ends[slot]
            and not (slot == len(segments) - 1 and segments[slot].size == 0)
            and predicate(slot)
        ):
            slot += 1
        if slot > first:
            expired.append((slot, why))

    walk("below the log start", lambda slot: slot + 1 < len(segments) and ends[slot] <= log_start_offset)
    if not config.deletes_by_retention:
        return expired
    if config.retention_bytes >= 0:
        kept = segments[expired[-1][0] if expired else 0 :]
        excess = sum(segment.size for segment in kept) - config.retention_bytes

        def too_much(slot: int) -> bool:
            nonlocal excess
            excess -= segments[slot].size
            return excess >= 0

        walk(f"retention.bytes={config.retention_bytes}", too_much)
    if config.retention_ms >= 0 and now_ms is not None:
        walk(
            f"retention.ms={config.retention_ms}",
            lambda slot: segments[slot].age_ms(segments[slot].max_timestamp, now_ms) > config.retention_ms,
        )
    return expired


def deletions(segments: Sequence[Segment], expired: Sequence[Expired], log_end_offset: int) -> list[Deletion]:
    """Describe the expired segments, as long as their files are there."""
    first, result = 0, list[Deletion]()
    for end, why in expired:
        going, up_to = segments[first:end], segments[end].base_offset if end < len(segments) else log_end_offset
        newest_ms = max(segment.max_timestamp for segment in going)
        result.append(Deletion(why, up_to - going[0].base_offset, up_to - 1, newest_ms, going[-1].written_ms()))
        first = end
    return result


def delete_old_segments(log: Log, now_ms: int | None, report: Callable[[Deletion], None] = lambda _: None) -> int:
    """Remove segments by log start, `retention.bytes` and `retention.ms` (LG-13 to LG-15), and return how many.

    Without `now_ms`, age removes none. `report` gets each deletion. While a truncation is being settled, nothing is
    removed."""
    if not log.settled:
        return 0
    with log.work:
        bounds = (log.log_start_offset, log.high_watermark, log.log_end_offset)
        segments = log.segments
        expired = expired_segments(segments, log.config, *bounds, now_ms)
        if not expired:
            return 0
        gone, count = deletions(segments, expired, log.log_end_offset), expired[-1][0]
    if count == len(segments):
        log.roll()
    log.remove_first(count)
    for deletion in gone:
        report(deletion)
    return count
