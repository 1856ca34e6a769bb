"""Which offset a timestamp stands for (SG-7). Reads records, so it is for administration, not for the data path."""

from collections.abc import Sequence

from replog.log.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from replog.log.compaction.record_slices import MAX_RECORDS, slice_records
from replog.log.compression import decompress
from replog.log.offsets import TimestampAndOffset
from replog.log.segment import Segment


def find_offset_by_timestamp(
    segments: Sequence[Segment], timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    """The first record from `start_offset` on, by offset, whose timestamp is `timestamp` or later."""
    for segment in segments:
        if segment.next_offset > start_offset and segment.max_timestamp >= timestamp:
            found = find_in_segment(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def find_in_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
    """As `find_offset_by_timestamp`, in one segment: the indexes say from where to look.

    A time entry that its batch does not confirm is done without: nothing has checked it since it was written.
    """
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
        found = _find_in_batch(header, segment.file.read(position, header.size), timestamp, start_offset)
        if found is not None:
            return found
    return None


def _find_in_batch(header: BatchHeader, data: bytes, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
    """The same in a batch that claims such a record. None if it lies before `start_offset`.

    A batch without one, or with too many to look through, stands for its first record: a lookup is a short work.
    """
    first = max(header.base_offset, start_offset)
    if header.records_count <= MAX_RECORDS:
        raw = decompress(header.attributes & CODEC_MASK, data[HEADER_SIZE:])
        for record in slice_records(raw, header.records_count):
            offset = header.base_offset + record.offset_delta
            time = header.base_timestamp + record.timestamp_delta
            if header.attributes & LOG_APPEND_TIME:
                time = header.max_timestamp
            if time >= timestamp and first <= offset <= header.last_offset:
                return TimestampAndOffset(time, offset, header.leader_epoch)
        if header.base_offset < start_offset:
            return None
    return TimestampAndOffset(header.max_timestamp, first, header.leader_epoch)
