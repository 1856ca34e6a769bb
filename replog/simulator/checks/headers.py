"""Reads the batch headers of a real log without changing it: its files are opened again, its memory is only read."""

import os
from collections.abc import Iterator

from replog.log.formats.batch import BatchHeader
from replog.log.formats.headers import read_headers
from replog.log.log import Log
from replog.log.segment import Segment


def all_headers(log: Log) -> Iterator[BatchHeader]:
    """Yield all headers from the files, in order."""
    for segment in log.whole_segments:
        yield from _on_disk(segment)


def headers_from(log: Log, offset: int) -> list[BatchHeader]:
    """Return the headers that begin at or after `offset`; no file is read if memory has them all."""
    headers: list[BatchHeader] = []
    for segment in reversed(log.whole_segments):
        recent = segment.recent
        complete = False
        for _, header in reversed(recent):
            if header.base_offset < offset:
                complete = True
                break
            headers.append(header)
        if complete or (headers and headers[-1].base_offset == offset):
            break
        if not recent or recent[0][0] > 0:  # the segment was rolled, or has more than memory holds
            del headers[len(headers) - len(recent) :]
            headers += reversed([header for header in _on_disk(segment) if header.base_offset >= offset])
        if segment.base_offset <= offset:
            break
    headers.reverse()
    return headers


def headers_of(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch in the segment's file."""
    if not segment.size:
        return
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from read_headers(fd, segment.size, 0)
    finally:
        os.close(fd)


def _on_disk(segment: Segment) -> Iterator[BatchHeader]:
    return (header for _, header in headers_of(segment))
