"""Which offset a timestamp stands for (SG-7). Reads records, so it is for administration, not for the data path."""

from collections.abc import Sequence

from replog.log.offsets import TimestampAndOffset
from replog.log.records import iterate_records
from replog.log.scan import BatchReader
from replog.log.segment import Segment


def find_offset_by_timestamp(
    segments: Sequence[Segment], timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    """The first record from `start_offset` on, by offset, whose timestamp is `timestamp` or later."""
    for segment in segments:
        if segment.next_offset > start_offset and segment.max_timestamp >= timestamp:
            found = find_in_segment(segment, timestamp, start_offset)
            if segment is not segments[-1]:
                segment.close()
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
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        reader = BatchReader(segment.fd(), position + header.size)
        for _, batch, data in reader.batches(position):
            for record in iterate_records(data, batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampAndOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None
