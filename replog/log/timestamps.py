"""Finds the offset for a timestamp (SG-7). It reads records, so it is for administration, not for the data path.

The indexes and the headers say within microseconds which batch claims such a record. To read the batch may mean to
decompress it. That is a step of its own: it needs only the batch, and can run elsewhere."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from replog.log.formats.compression import MAX_UNCOMPRESSED_BYTES, decompress
from replog.log.formats.records import MAX_RECORDS, slice_records
from replog.log.formats.validation import MAX_EXPANSION
from replog.log.offsets import Buffer, TimestampAndOffset
from replog.log.segment import Segment


class ClaimingBatch(NamedTuple):
    """A batch whose header claims a record of that time or later."""

    header: BatchHeader
    data: Buffer
    timestamp: int
    start_offset: int  # nothing before it counts
    max_message_bytes: int  # the topic's

    def find(self) -> TimestampAndOffset | None:
        """Find the first such record from `start_offset` on. None if it lies before.

        A lookup must be short: a batch stands for its first record if it has no such record, has too many to look
        through, decompresses to too much, or not at all."""
        header = self.header
        first = max(header.base_offset, self.start_offset)
        limit = min(MAX_EXPANSION * self.max_message_bytes, MAX_UNCOMPRESSED_BYTES)
        try:
            if header.records_count > MAX_RECORDS:
                raise InvalidRecord(f"{header.records_count} records are too many to look through")
            raw = decompress(header.attributes & CODEC_MASK, bytes(self.data[HEADER_SIZE:]), limit)
            for record in slice_records(raw, header.records_count):
                offset = header.base_offset + record.offset_delta
                time = header.base_timestamp + record.timestamp_delta
                if header.attributes & LOG_APPEND_TIME:
                    time = header.max_timestamp
                if time >= self.timestamp and first <= offset <= header.last_offset:
                    return TimestampAndOffset(time, offset, header.leader_epoch)
            if header.base_offset < self.start_offset:
                return None
        except InvalidRecord:
            pass
        return TimestampAndOffset(header.max_timestamp, first, header.leader_epoch)


def find_batch_by_timestamp(
    segments: Sequence[Segment], timestamp: int, start_offset: int, max_message_bytes: int
) -> ClaimingBatch | None:
    """Find the first batch, by offset, that claims a record from `start_offset` on whose timestamp is `timestamp` or
    later."""
    for segment in segments:
        if segment.next_offset > start_offset and segment.max_timestamp >= timestamp:
            batch = find_in_segment(segment, timestamp, start_offset, max_message_bytes)
            if batch is not None:
                return batch
    return None


def find_in_segment(
    segment: Segment, timestamp: int, start_offset: int, max_message_bytes: int
) -> ClaimingBatch | None:
    """Find that batch in one segment, starting where the indexes say.

    A time entry that its batch does not confirm is ignored: it was not checked since it was written."""
    known = segment.time_index.lookup(timestamp)
    entry = segment.translate(known.offset)
    confirmed = entry is not None and known == (entry[1].max_timestamp, entry[1].last_offset)
    first = known.offset if confirmed and known.timestamp <= timestamp else segment.base_offset
    start = segment.translate(max(first, start_offset))
    if start is None:
        return None
    for position, header in segment.batches_from(start[0]):
        if header.max_timestamp < timestamp or header.last_offset < start_offset or not header.records_count:
            continue
        data = segment.file.read(position, header.size)
        return ClaimingBatch(header, data, timestamp, start_offset, max_message_bytes)
    return None
