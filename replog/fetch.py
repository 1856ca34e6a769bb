"""What a fetch of one partition asks and what it is answered, as both roles see it (§4, §7)."""

from dataclasses import dataclass

from replog.errors import ErrorCode
from replog.log.offsets import AbortedTransaction, Buffer, EpochEndOffset


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a fetch, by a follower or a consumer."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int | None = None  # None: not fenced (FE-2)
    last_fetched_epoch: int | None = None  # None: not validated (FE-5)
    log_start_offset: int = -1  # the follower's own (ST-7)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A leader's answer for one partition; the offsets are as they were before the read (FE-4), -1 if unknown."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    diverging: EpochEndOffset | None = None
    records: Buffer = b""
    aborted: tuple[AbortedTransaction, ...] = ()  # READ_COMMITTED only (LG-9)


def check_leader_epoch(requested: int | None, local: int) -> ErrorCode:
    """Fence a request by the leader epoch it believes in, before leadership is looked at (FE-2).

    An older one is the caller's mistake (FENCED), a newer one means that this broker is behind (UNKNOWN).
    """
    if requested is None or requested == local:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < local else ErrorCode.UNKNOWN_LEADER_EPOCH


def diverges(end: EpochEndOffset, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """Whether a replica at `fetch_offset` whose last record has `last_fetched_epoch` must truncate (FE-5.3).

    `end` is the leader's end offset for that epoch, and defined.
    """
    return end.epoch < last_fetched_epoch or end.end_offset < fetch_offset
