"""The batch headers of a real log, read without touching it: its files are opened anew, its memory only looked at."""

import os
from collections.abc import Iterator

from replog.log.batch import BatchHeader
from replog.log.log import Log
from replog.log.scan import BatchReader
from replog.log.segment import Segment


def all_headers(log: Log) -> Iterator[BatchHeader]:
    """From the files, in order."""
    for segment in log._segments:
        yield from _on_disk(segment)


def headers_from(log: Log, offset: int) -> list[BatchHeader]:
    """Those that begin at or after `offset`, which are the last ones: from memory if it has them all."""
    found: list[BatchHeader] = []
    for segment in reversed(log._segments._segments):
        recent = segment._recent
        complete = False
        for _, header in reversed(recent):
            if header.base_offset < offset:
                complete = True
                break
            found.append(header)
        if complete or (found and found[-1].base_offset == offset):
            break
        if not recent or recent[0][0] > 0:  # the segment was rolled, or has more than memory holds
            del found[len(found) - len(recent) :]
            found += reversed([header for header in _on_disk(segment) if header.base_offset >= offset])
        if segment.base_offset <= offset:
            break
    found.reverse()
    return found


def headers_of(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """With their positions, from its file."""
    if not segment.size:
        return
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from BatchReader(fd, segment.size).headers(0)
    finally:
        os.close(fd)


def _on_disk(segment: Segment) -> Iterator[BatchHeader]:
    return (header for _, header in headers_of(segment))
