"""The digest check of one segment: it reads the digest index, and few headers, for the digests at given offsets.

The index is believed, and compared with those of other replicas: two replicas with the same batches agree on the
difference between any two offsets, and on the bytes between the ends of any two segments.
"""

from bisect import bisect_left
from collections.abc import Iterator

from replog.log.files.names import DIGEST_SUFFIX, LOG_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, add_digests, batch_digest
from replog.log.formats.segment_file import SegmentFile, Vanished
from replog.log.formats.walk import Break
from replog.log.indexes.entries import LAYOUTS
from replog.log_tools.checker.findings import Fault
from replog.log_tools.checker.indexes import read_index
from replog.log_tools.checker.segment import gap_behind
from spark_jobs.replicas.faults import NO_DIGESTS, FileFault, capped
from spark_jobs.replicas.files import ReplicaSegment, last_indexed, open_log
from spark_jobs.replicas.index_check import BYTES, DIGEST, Point

_NO_DIGESTS = "no digest index covers these offsets, and this level reads nothing else"

_layout = LAYOUTS[DIGEST_SUFFIX]


def digest_points(segment: ReplicaSegment, aligned: list[int], *, entries: bool) -> Iterator[Point | FileFault]:
    """Yield points at the segment's ends, and of the batches that end below each of the offsets `aligned` within it.

    With `entries` it also yields those of all entries, which narrow a difference down. Raises OSError if a file cannot
    be read.
    """
    return capped(_points(segment, aligned, entries=entries))


def _points(segment: ReplicaSegment, aligned: list[int], *, entries: bool) -> Iterator[Point | FileFault | Fault]:
    before = segment.digest_before
    yield Point(BYTES, segment.base - 1, segment.bytes_before)  # sizes cost nothing
    yield Point(DIGEST, segment.base - 1, before)
    if segment.next_base is not None:
        yield Point(BYTES, segment.next_base - 1, segment.bytes_before + segment.size)
    if segment.size < HEADER_SIZE and (gap := gap_behind(segment, segment.size, segment.base)) is not None:
        yield gap
    if before is None:
        return  # an earlier segment has reported that its digest is not known
    if entries:
        for _, offset, digest in read_index(segment, DIGEST_SUFFIX).rows:
            yield Point(DIGEST, offset, add_digests(before, digest))
    with segment.open(LOG_SUFFIX) as log:
        if log.size < HEADER_SIZE:
            return
    wanted = [offset for offset in aligned if segment.base < offset < (segment.next_base or offset + 1)]
    try:
        with segment.open(DIGEST_SUFFIX) as digests:
            yield from _Digests(segment, digests).points(before, wanted)
    except FileNotFoundError:
        last = segment.base if segment.next_base is None else segment.next_base - 1
        yield FileFault(NO_DIGESTS, DIGEST_SUFFIX, 0, segment.base, last, -1, _NO_DIGESTS)


class _Digests:
    """An open digest index."""

    def __init__(self, segment: ReplicaSegment, file: SegmentFile) -> None:
        self._segment = segment
        self._file = file
        self._count = file.size // _layout.size

    def points(self, before: int, aligned: list[int]) -> Iterator[Point | FileFault | Fault]:
        for wanted in aligned:
            offset, digest, reached = self._at(wanted)
            yield Point(DIGEST, wanted - 1 if reached else offset, add_digests(before, digest))
        next_base = self._segment.next_base
        if next_base is None:
            return
        offset, digest, _ = self._at(next_base)
        yield Point(DIGEST, offset, add_digests(before, digest))
        last = self._entry(self._count - 1)[0]
        if (gap := gap_behind(self._segment, self._segment.size, offset + 1)) is not None:
            yield gap
        elif last != offset:  # the digests of later segments are not known either
            yield FileFault(NO_DIGESTS, DIGEST_SUFFIX, 0, self._segment.base, offset, -1, _NO_DIGESTS)
        if last >= next_base and (gap := gap_behind(self._segment, self._segment.size, last + 1)) is not None:
            yield gap

    def _entry(self, slot: int) -> tuple[int, int]:
        """Return the offset and digest of an entry; slot -1 means before the first batch."""
        if slot < 0:
            return self._segment.base - 1, 0
        raw = self._file.read(slot * _layout.size, _layout.size)
        if len(raw) < _layout.size:
            raise Vanished(f"the digest index had {self._count} entries, entry {slot} is gone")
        relative, digest = _layout.unpack(raw)
        return self._segment.base + relative, digest

    def _at(self, wanted: int) -> tuple[int, int, bool]:
        """Return the last offset and the digest of the batches that end below `wanted`, and whether offsets reach it.

        They come from the entry before it, and from headers.
        """
        last = self._count - 1
        if self._entry(last)[0] >= wanted:
            last = bisect_left(range(last), wanted, key=lambda slot: self._entry(slot)[0]) - 1
        offset, digest = self._entry(last)
        if offset == wanted - 1:
            return offset, digest, True
        reached = False
        with open_log(self._segment, HEADER_SIZE) as log:
            for item in log.walk(last_indexed(self._segment, log, offset + 1)):
                if isinstance(item, Break):
                    break
                header = item[1]
                if header.last_offset >= wanted:
                    reached = True
                    break
                if header.last_offset > offset:
                    offset, digest = header.last_offset, add_digests(digest, batch_digest(header))
        return offset, digest, reached
