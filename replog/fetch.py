"""What a fetch of one partition asks and what it is answered, as both roles see it (§4, §7)."""

from dataclasses import dataclass

from replog.errors import ErrorCode
from replog.log.offsets import Buffer, EpochEndOffset


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
