"""Reads over the segments of a log (5.7)."""

from replog.log.offsets import AbortedTransaction, FetchData, OffsetMetadata
from replog.log.segment import Segment
from replog.log.segments import Segments


def read_below(
    segments: Segments, offset: int, max_bytes: int, bound: OffsetMetadata, *, min_one_message: bool
) -> FetchData:
    """Whole log from the batch that holds `offset` on, below `bound`, whose place is known (LG-7); at or past it
    nothing. A read stays within one segment."""
    if offset >= bound.offset:
        return FetchData(bound if offset == bound.offset else segments.locate(offset), b"")
    for segment in segments.since(offset):
        data = segment.read(offset, max_bytes, _max_position(segment, bound), min_one_message=min_one_message)
        if data is not None:
            return data
    return FetchData(segments.end(), b"")


def _max_position(segment: Segment, bound: OffsetMetadata) -> int:
    """Up to where this segment may be read (LG-7)."""
    if segment.base_offset < bound.segment_base:
        return segment.size
    return bound.position if segment.base_offset == bound.segment_base else 0


def aborted_transactions(segments: Segments, data: FetchData) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that may overlap what was read, perhaps others too (LG-9)."""
    first, *later = segments.since(data.metadata.segment_base)
    if not data.records or not any(segment.transaction_index.count for segment in (first, *later)):
        return ()
    bound = first.index.fetch_upper_bound(data.metadata.position, len(data.records))
    end = later[0].base_offset if later else first.next_offset
    upper = end if bound is None else bound.offset
    found: list[AbortedTransaction] = []
    for segment in (first, *later):
        entries, complete = segment.transaction_index.collect(data.metadata.offset, upper)
        found += [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
        if complete:
            break
    return tuple(found)
