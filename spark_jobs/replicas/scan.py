"""Walks over one segment's log: what is sound comes out as headers, what is not as `Damage`.

Reads in windows of bounded size, so that memory stays small.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

from crc32c import crc32c

from replog.log.batch import CRC_START, HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import LOG_SUFFIX
from spark_jobs.replicas.faults import GAP, REPEATED, Fault
from spark_jobs.replicas.files import MAX_HEADERS, Segment, SegmentFile, Vanished

WINDOW = 1 << 20
FIRST_HEADERS = 16  # read by a walk at once, then twice as many, and so on


class CutShort(CorruptRecord):
    """The file ends before the batch does."""


@dataclass(frozen=True)
class Damage:
    """No batch could be read at `position`; the next one begins at `resume`, or None if none was found."""

    position: int
    resume: int | None
    reason: str
    cut_short: bool = False  # a batch may begin here, but the file ends before it does


Landmarks = Sequence[tuple[int, int, int]]  # slot, offset and position of entries of an offset index
Step = tuple[int, BatchHeader] | Damage
_position = itemgetter(2)


class LogFile:
    """Bounded reads of a `.log` file below the size that it had when it was opened.

    With a window of `HEADER_SIZE` nothing but headers is read. Raises Vanished where the file has become shorter.
    """

    def __init__(self, file: SegmentFile, window: int = WINDOW) -> None:
        self._file = file
        self.size = file.size
        self._window_size = window
        self._start = 0
        self._window = b""
        self._headers: dict[int, BatchHeader] = {}  # that were read in advance

    def header(self, position: int) -> BatchHeader:
        """The header at `position`. Raises CorruptRecord if there is none that can be right, whole batch included."""
        if position + HEADER_SIZE > self.size:
            raise CutShort(f"{max(0, self.size - position)} bytes are too few for a batch header")
        header = self._headers.get(position)
        if header is None:
            start = position - self._start
            if start < 0 or start + HEADER_SIZE > len(self._window):
                self._read(position, min(self._window_size, self.size - position))
                start = 0
            header = parse_header(self._window, start)
        if position + header.size > self.size:
            raise CutShort(f"batch of {header.size} bytes ends {position + header.size - self.size} past the file")
        return header

    def expect(self, positions: Sequence[int]) -> None:
        """Read the headers at these positions, `MAX_HEADERS` at most, in one go: they are asked for next."""
        self._headers = dict(self._file.headers_at([at for at in positions if at + HEADER_SIZE <= self.size]))

    def crc(self, position: int, header: BatchHeader) -> int:
        """CRC-32C of the stored bytes, however large the header says the batch is."""
        at, end, crc = position + CRC_START, position + header.size, 0
        start = at - self._start
        if start >= 0 and end - self._start <= len(self._window):
            return int(crc32c(memoryview(self._window)[start : end - self._start]))
        while at < end:
            self._read(at, min(WINDOW, end - at))
            crc = crc32c(self._window, crc)
            at += len(self._window)
        return int(crc)

    def read(self, position: int, size: int) -> bytes:
        """All of a batch, which `crc` has found sound, so that its size is no lie."""
        start = position - self._start
        if start < 0 or start + size > len(self._window):
            return self._file.read(position, size)
        return self._window[start : start + size]

    def walk(self, position: int, landmarks: Landmarks = (), end: int | None = None) -> Iterator[Step]:
        """Position and header of each whole batch from `position` on, up to the one that begins at `end`.

        `landmarks` are entries of the offset index. Where no batch can be read, a `Damage`; then the walk goes on at
        the next landmark at which a batch begins that may have its offset. No batch is believed that would cover such
        a landmark, so that a walk comes by every one of them, wherever it began and whatever it met before.
        """
        end = self.size if end is None else end
        following, count = bisect_left(landmarks, position, key=_position), FIRST_HEADERS
        while position < end:
            if self._window_size == HEADER_SIZE and position not in self._headers:
                self._headers = dict(self._file.headers(position, count))
                count = min(2 * count, MAX_HEADERS)
            while following < len(landmarks) and landmarks[following][2] <= position:
                following += 1
            try:
                header = self.header(position)
                self._covers_none(position, header, landmarks, following)
            except CorruptRecord as error:
                later = range(following, len(landmarks))
                resume = next((landmarks[slot][2] for slot in later if self.is_landmark(landmarks[slot])), None)
                yield Damage(position, resume, error.message, isinstance(error, CutShort))
                if resume is None:
                    return
                position = resume
                continue
            yield position, header
            position += header.size

    def _covers_none(self, position: int, header: BatchHeader, landmarks: Landmarks, slot: int) -> None:
        while slot < len(landmarks) and landmarks[slot][2] < position + header.size:
            if self.is_landmark(landmarks[slot]):
                raise CorruptRecord(f"batch of {header.size} bytes runs into the one at {landmarks[slot][2]}")
            slot += 1

    def is_landmark(self, entry: tuple[int, int, int]) -> bool:
        """Whether a batch begins where the entry of the offset index says, with offsets that fit."""
        try:
            return self.header(entry[2]).base_offset <= entry[1]
        except CorruptRecord:
            return False

    def is_batch(self, position: int) -> bool:
        try:
            self.header(position)
        except CorruptRecord:
            return False
        return True

    def _read(self, position: int, size: int) -> None:
        self._window, self._start = self._file.read(position, size), position
        if len(self._window) < size:
            raise Vanished(f"{size} bytes at {position} became {len(self._window)}: the log was cut")


@contextmanager
def open_log(segment: Segment, window: int = WINDOW) -> Iterator[LogFile]:
    with segment.open(LOG_SUFFIX) as file:
        yield LogFile(file, window)


def gap_behind(segment: Segment, size: int, expected: int) -> Fault | None:
    """What is wrong where a log of `size` bytes ends before offset `expected`, if the next segment begins elsewhere."""
    next_base = segment.next_base
    if next_base is None:
        return None
    detail = f"the segment ends with offset {expected - 1}, the next one begins with {next_base}"
    if (missing := segment.missing_from(expected, next_base)) < next_base:
        return Fault(GAP, LOG_SUFFIX, size, missing, next_base - 1, -1, detail)
    if expected > next_base:
        return Fault(REPEATED, LOG_SUFFIX, size, next_base, expected - 1, -1, detail)
    return None
