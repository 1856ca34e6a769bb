"""Batches one after the other: offsets without holes, leader epochs that never go back, each in its segment."""

from collections.abc import Iterator
from pathlib import Path

from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_CODEC,
    TRANSACTIONAL,
    BatchHeader,
)
from replog.log.indexes.index import MAX_RELATIVE_OFFSET
from replog.log.tools.verify.findings import Finding, Kind

KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON


class Continuity:
    """What the batch, or the segment, that comes next must continue; kept over all segments of a partition."""

    def __init__(self, *, compacted: bool) -> None:
        self.compacted = compacted  # holes are legal, between batches and inside (CL-8)
        self.next_offset: int | None = None  # None: whatever comes
        self.end_offset = 0  # behind the last batch, or segment, seen
        self.complete = True  # every offset so far was seen
        self.doubtful = False  # the batch seen last is not where its offset belongs
        self._epoch = -1
        self._if_misnumbered: int | None = None

    def see_segment(self, path: Path, base: int) -> Iterator[Finding]:
        """A segment begins at `base`: the one before it must reach up to it."""
        expected = self.next_offset
        if expected is not None and base > expected and not self.compacted:
            self.complete = False
            yield Kind.HOLE.at(path, f"offsets {expected} to {base - 1} are in no segment", offset=expected)
        self.next_offset = self.end_offset = base  # a batch that reaches beyond it is told of by `check_range`
        self._if_misnumbered = None

    def lose(self) -> None:
        """Bytes could not be read: what they held is not known."""
        self.next_offset = None
        self.complete = False

    def see(self, path: Path, position: int, header: BatchHeader) -> Iterator[Finding]:
        """One batch, its CRC right or not (the bytes judged here lie outside of it, RB-2)."""
        yield from self._offset(path, position, header)
        if header.leader_epoch < self._epoch:
            message = f"leader epoch {header.leader_epoch} follows {self._epoch}"
            yield Kind.EPOCH_BACK.at(path, message, position=position, offset=header.base_offset)
        self._epoch = header.leader_epoch
        if header.records_count != header.last_offset_delta + 1 and not self.compacted:
            message = f"{header.records_count} records in {header.last_offset_delta + 1} offsets"
            yield Kind.BATCH_COUNT.at(path, message, position=position, offset=header.base_offset)
        if header.attributes & ~KNOWN_ATTRIBUTES or header.attributes & CODEC_MASK > MAX_CODEC:
            message = f"attributes {header.attributes & 0xFFFF:#06x}"
            yield Kind.UNKNOWN_ATTRIBUTES.at(path, message, position=position, offset=header.base_offset)

    def _offset(self, path: Path, position: int, header: BatchHeader) -> Iterator[Finding]:
        expected, misnumbered = self.next_offset, self._if_misnumbered
        self.next_offset, self._if_misnumbered = header.next_offset, None
        self.end_offset = header.next_offset
        self.doubtful = False
        if expected is None or header.base_offset in (expected, misnumbered):
            return
        if header.base_offset > expected and self.compacted:
            return
        kind = Kind.HOLE if header.base_offset > expected else Kind.OFFSET_BACK
        message = f"offset {header.base_offset} where {expected} was to come"
        yield kind.at(path, message, position=position, offset=expected)
        self.doubtful, self.complete = True, False
        self._if_misnumbered = expected + header.last_offset_delta + 1  # if only the number is wrong, say it once


def check_range(path: Path, position: int, header: BatchHeader, base: int, next_base: int | None) -> Finding | None:
    """A batch must lie in its segment: from `base`, below the next one's base, within 31 bits (IX-4)."""
    fault = None
    if header.base_offset < base:
        fault = f"the segment begins at {base}"
    elif next_base is not None and header.last_offset >= next_base:
        fault = f"the next segment begins at {next_base}"
    elif header.last_offset - base > MAX_RELATIVE_OFFSET:
        fault = f"that is more than {MAX_RELATIVE_OFFSET} above {base}"
    if fault is None:
        return None
    message = f"a batch of offsets {header.base_offset} to {header.last_offset}, and {fault}"
    return Kind.OUTSIDE_SEGMENT.at(path, message, position=position, offset=header.base_offset)
