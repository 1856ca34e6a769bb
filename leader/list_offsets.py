"""Finds the offset that a leader answers for a timestamp (FE-22)."""

from collections.abc import Callable
from typing import TypedDict

from replog.errors import ErrorCode
from replog.log.log import Log
from replog.log.offsets import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Isolation, TimestampAndOffset

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
ALONE = (
    "this leader hears neither the controller nor a follower, and others may lead by now; ask another broker who does"
)


class Telling(TypedDict, total=False):
    """Tells a leader if it is isolated, and how to find records by time."""

    alone: bool
    look_up: Callable[[Log, int], TimestampAndOffset | None]


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampAndOffset | None:
    """Find the first record, by offset, with a timestamp of at least `timestamp` (SG-7); None if there is none."""
    start_offset = 0
    while (batch := log.batch_for_timestamp(timestamp, start_offset)) is not None:
        if (record := batch.find()) is not None:
            return record
        start_offset = batch.header.next_offset
    return None


def list_offset(
    log: Log,
    timestamp: int,
    isolation: Isolation,
    leader_epoch: int,
    leader_epoch_start_offset: int,
    *,
    alone: bool = False,
    look_up: Callable[[Log, int], TimestampAndOffset | None] = offset_for_timestamp,
) -> TimestampAndOffset:
    """Return the first offset as late as `timestamp`, or the latest (-1) or earliest (-2); (-1, -1) if none is as late.

    Raises OFFSET_NOT_AVAILABLE to clients while the high watermark has not reached the epoch's start, unless the answer
    lies below it: the bound could be lower than one that the previous leader has answered. An isolated leader (`alone`)
    does not answer its bound either: the next leader's may be higher. Raises INVALID_TIMESTAMP below -2. `look_up`
    finds records by time."""
    if timestamp < EARLIEST_TIMESTAMP:
        raise ErrorCode.INVALID_TIMESTAMP.error(f"timestamp {timestamp}: -1 is the latest and -2 the earliest")
    if timestamp == EARLIEST_TIMESTAMP:
        epoch = log.epochs.epoch_for_offset(log.log_start_offset)
        return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, NO_EPOCH if epoch is None else epoch)
    end = log.limit(isolation)
    answer = TimestampAndOffset(NO_TIMESTAMP, end, leader_epoch)
    if timestamp != LATEST_TIMESTAMP:
        by_time = look_up(log, timestamp)
        if by_time is not None and by_time.offset < end:
            return by_time
        answer = TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
    if isolation is Isolation.LOG_END:
        return answer
    if alone:
        raise ErrorCode.OFFSET_NOT_AVAILABLE.error(f"{log.directory.name}: {ALONE}")
    if log.high_watermark < leader_epoch_start_offset:
        raise ErrorCode.OFFSET_NOT_AVAILABLE.error(
            f"{log.directory.name}: the high watermark {log.high_watermark} has not reached "
            f"{leader_epoch_start_offset}, where leader epoch {leader_epoch} began; retry"
        )
    return answer
