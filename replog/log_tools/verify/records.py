"""Checks a batch's header, and its records, one by one (`--deep`)."""

from collections.abc import Iterator
from pathlib import Path

from replog.log.errors import InvalidRecord
from replog.log.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_CODEC,
    TRANSACTIONAL,
    BatchHeader,
)
from replog.log.formats.records import iterate_records
from replog.log.indexes.index import MAX_RELATIVE_OFFSET
from replog.log.offsets import NO_TIMESTAMP
from replog.log_tools.checker.findings import Finding, Kind

KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON


def check_header(path: Path, position: int, header: BatchHeader, base: int, *, compacted: bool) -> Iterator[Finding]:
    """Check a sound batch in the segment of offset `base`."""
    wrong = []
    if header.last_offset - base > MAX_RELATIVE_OFFSET:
        message = f"offset {header.last_offset} is more than {MAX_RELATIVE_OFFSET} above the segment's {base} (IX-4)"
        wrong.append((Kind.OUTSIDE_SEGMENT, message))
    if header.records_count != header.last_offset_delta + 1 and not compacted:
        wrong.append((Kind.BATCH_COUNT, f"{header.records_count} records in {header.last_offset_delta + 1} offsets"))
    if header.attributes & ~KNOWN_ATTRIBUTES or header.attributes & CODEC_MASK > MAX_CODEC:
        wrong.append((Kind.UNKNOWN_ATTRIBUTES, f"attributes {header.attributes & 0xFFFF:#06x}"))
    for kind, message in wrong:
        yield kind.at(path, message, position=position, offset=header.base_offset)


def check_records(
    path: Path, position: int, header: BatchHeader, data: memoryview, *, compacted: bool
) -> Iterator[Finding]:
    """Check that records decompress, decode (RB-3), and have rising offsets inside of the batch, and its timestamps.

    With LogAppendTime all have the batch's (RB-4); else the greatest of them is the batch's."""
    offset, greatest = header.base_offset - 1, NO_TIMESTAMP
    try:
        for record in iterate_records(data, header):
            if not offset < record.offset <= header.last_offset:
                raise InvalidRecord(
                    f"record of offset {record.offset} after {offset} in a batch to {header.last_offset}"
                )
            offset = record.offset
            greatest = max(greatest, record.timestamp)
    except InvalidRecord as damage:
        yield Kind.RECORDS.at(path, damage.message, position=position, offset=offset + 1)
        return
    if offset != header.last_offset and not compacted:
        message = f"the last record has offset {offset}, the batch says {header.last_offset}"
        yield Kind.RECORDS.at(path, message, position=position, offset=offset)
    if header.records_count and greatest != header.max_timestamp and not header.attributes & LOG_APPEND_TIME:
        message = f"the greatest timestamp is {greatest}, the batch says {header.max_timestamp}"
        yield Kind.TIMESTAMPS.at(path, message, position=position, offset=header.base_offset)
